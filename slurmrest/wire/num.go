package wire

import (
	"encoding/json"
	"math"
	"strconv"
)

// Num is Slurm's number wrapper {"set":…,"infinite":…,"number":…}. Times are
// UNIX seconds, time limits minutes, memory MiB. The zero value is "not given".
type Num struct {
	Set      bool
	Infinite bool
	Number   int64
}

// NumFloat is Num for real numbers.
type NumFloat struct {
	Set      bool
	Infinite bool
	Number   float64
}

// N is a Num that is set to n.
func N[I int | int32 | int64 | uint16 | uint32 | uint64](n I) Num {
	return Num{Set: true, Number: int64(n)}
}

// Infinite is the Num without a limit.
var Infinite = Num{Infinite: true}

// Or returns the number, or other where the Num is unset or infinite.
func (n Num) Or(other int64) int64 {
	if n.Set && !n.Infinite {
		return n.Number
	}
	return other
}

// Given reports whether a sender named a value at all.
func (n Num) Given() bool { return n.Set || n.Infinite }

// MarshalJSON writes the wrapper object.
func (n Num) MarshalJSON() ([]byte, error) { return appendNum(nil, n), nil }

// UnmarshalJSON reads every form Slurm reads.
func (n *Num) UnmarshalJSON(b []byte) error {
	d := decoder{data: b}
	d.num(n)
	return d.first()
}

// MarshalJSON writes the wrapper object.
func (n NumFloat) MarshalJSON() ([]byte, error) { return appendNumFloat(nil, n), nil }

// UnmarshalJSON reads every form Slurm reads.
func (n *NumFloat) UnmarshalJSON(b []byte) error {
	d := decoder{data: b}
	d.numFloat(n)
	return d.first()
}

func appendNum(b []byte, n Num) []byte {
	b = appendWrapper(b, n.Set, n.Infinite)
	b = strconv.AppendInt(b, n.Number, 10)
	return append(b, '}')
}

func appendNumFloat(b []byte, n NumFloat) []byte {
	b = appendWrapper(b, n.Set, n.Infinite)
	b = appendFloat(b, n.Number)
	return append(b, '}')
}

func appendWrapper(b []byte, set, infinite bool) []byte {
	b = append(b, `{"set":`...)
	b = strconv.AppendBool(b, set)
	b = append(b, `,"infinite":`...)
	b = strconv.AppendBool(b, infinite)
	return append(b, `,"number":`...)
}

// appendFloat writes a real number; JSON has no infinities, so they become 0.
func appendFloat(b []byte, f float64) []byte {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		f = 0
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64)
}

var (
	_ json.Marshaler   = Num{}
	_ json.Unmarshaler = (*Num)(nil)
)
