// Package sqlstore keeps the controller's durable state in SQL: the one
// implementation of store.Journal.
//
// serve.go opens it and gives it to the queue, the only writer. It decides
// nothing about jobs or nodes.
//
// Decisions. A row is the record as JSON, beside the few columns that are
// searched: a new field needs no migration, and what is read at start is what
// was committed. Every commit moves the leader row on (seq), so that the commit
// of a controller that lost leadership fails, on one machine and on a Galera
// cluster alike. Times are nanoseconds since 1970, 0 is the zero time. What
// SQLite and MySQL don't have in common is in a dialect. schema.sql is the
// wanted end state; a test checks that the migrations reach it.
package sqlstore
