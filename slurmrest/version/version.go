// Package version makes older versions of Slurm's REST API out of the newest.
//
// The types of package wire are the newest version's. What an older version
// lacks, has besides, or shapes otherwise is a table of edits for each record
// (table.go), taken from the published structures; Rewrite applies it to the
// record's JSON in one pass. So handlers are written once. The server is the
// only caller.
package version

import (
	"slices"

	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// Version is one served API version.
type Version struct {
	Name    string // v0.0.44
	number  int    // 44
	records map[string]*node
	fields  map[string][]string // of requests: fields this version doesn't know
	former  map[string]string   // of requests: fields that have another name by now
}

// served lists the versions, newest first; the newest has no edits, each older
// one those of its successor and its own. Slurm 26.05 serves four of them, these
// are all that a supported release has ever had.
var served = []*Version{
	{Name: wire.Newest, number: 45},
	{Name: "v0.0.44", number: 44, records: compile(edits44), fields: fields44, former: former44},
	{Name: "v0.0.43", number: 43, records: compile(edits44, edits43), fields: fields44, former: former44},
	{Name: "v0.0.42", number: 42, records: compile(edits44, edits43, edits42), fields: fields44, former: former44},
	{Name: "v0.0.41", number: 41, records: compile(edits44, edits43, edits42, edits41), fields: fields44, former: former41},
	{Name: "v0.0.40", number: 40, records: compile(edits44, edits43, edits42, edits41, edits40), fields: fields40, former: former41},
}

// Served lists the versions that are served, newest first.
func Served() []*Version { return served }

// Newest reports whether records of this version need no rewriting.
func (v *Version) Newest() bool { return v.records == nil }

// Since reports whether this is v0.0.N or a later version.
func (v *Version) Since(n int) bool { return v.number >= n }

// Lacks reports whether a request's field is unknown in this version.
func (v *Version) Lacks(schema, field string) bool { return slices.Contains(v.fields[schema], field) }

// Former names the present field for each field of requests that this version
// has under another name; "" for one that has no effect.
func (v *Version) Former() map[string]string { return v.former }
