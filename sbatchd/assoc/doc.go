// Package assoc holds the records of accounting: clusters, accounts, users, the
// tree of associations, QOS, wckeys and TRES, with every limit Slurm's own
// database keeps for them.
//
// A Book is all records at one moment; it never changes. A Draft is a change
// being made: its methods are what sacctmgr and the slurmdb REST API ask for,
// each in Slurm's rules, and it yields the rows to store and the transactions
// for the story. The queue, the one writer, commits a Draft's rows in an event;
// state.Apply then makes the next Book of them. Whether limits act is the
// scheduler's matter: it reads them here (Book.Effective for what a job of an
// association inherits, Book.Find for whose it is).
//
// Records are kept by id where Slurm keeps an id, so that a rename touches one
// row. What was refused: soft-deleted rows. Slurm keeps a removed association
// for the usage that names it; here usage names account and user, so a removed
// record is gone, and ids are never given twice.
//
// The package is pure: it reads no clock and does no I/O.
package assoc
