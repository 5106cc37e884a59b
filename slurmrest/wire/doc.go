// Package wire holds the JSON of Slurm's REST API: one Go type for each schema
// that the served operations use, generated from the newest published structure
// (v0.0.45), with encoders and decoders that need no reflection.
//
// Two kinds of type. Answers (JobInfo, Node, ...) have plain fields and are
// always written whole, as Slurm writes them; empty lists are [] and unset
// strings "". Requests (JobDescMsg, ...) know which fields were given: integers
// and booleans are pointers, Given tells about the rest, and only given fields
// are written. Reading follows Slurm: a bare number, a numeric string,
// "infinite" or null where the document says object; a comma list for a list;
// unknown fields are warnings.
//
// The server and the client use these types; older API versions are made from
// them by package version. Nothing here decides anything.
//
//go:generate go run ./gen
package wire

// Newest is the API version that the types are generated from.
const Newest = "v0.0.45"

// The headers that Slurm doesn't know.
const (
	// IdempotencyHeader carries a key of the client's choice that makes a submission
	// repeatable: for a day the same user's same request under the same key gets
	// the same job, and another request is refused.
	IdempotencyHeader = "Idempotency-Key"
	// SparseHeader asks for answers without fields that are zero.
	SparseHeader = "X-Sbatchd-Sparse"
)

// Value is one of the generated types.
type Value interface {
	encode(e *encoder)
}

// Target is a generated type that can be read into.
type Target interface {
	decode(d *decoder)
}

// given lists the JSON names of the fields of a request that were given.
type given []string

func (g *given) add(field string) {
	if !g.has(field) {
		*g = append(*g, field)
	}
}

func (g given) has(field string) bool {
	for _, f := range g {
		if f == field {
			return true
		}
	}
	return false
}
