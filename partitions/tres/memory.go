package tres

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Memory is an amount of memory in MiB, the unit of Slurm's config and REST.
type Memory uint64

// ErrMemory is returned for a text that is not a memory size.
var ErrMemory = errors.New("invalid memory size")

// maxMemory keeps sums of sizes far away from overflow: 2^53 MiB is what a JSON
// number can hold.
const maxMemory = 1 << 53

// ParseMemory reads a size as every option and config key takes it: a whole
// number, then nothing (MiB) or K, M, G or T in either case, then optionally B.
// All are powers of 1024; K rounds up to a whole MiB. Fractions, signs and
// blanks are refused with ErrMemory.
func ParseMemory(s string) (Memory, error) {
	digits := strings.TrimRight(s, "kKmMgGtTbB")
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || digits[0] == '+' {
		return 0, fmt.Errorf("%w: %q", ErrMemory, s)
	}
	var mul uint64 = 1
	switch strings.ToLower(s[len(digits):]) {
	case "":
	case "k", "kb":
		n = n/1024 + min(n%1024, 1)
	case "m", "mb":
	case "g", "gb":
		mul = 1 << 10
	case "t", "tb":
		mul = 1 << 20
	default:
		return 0, fmt.Errorf("%w: %q", ErrMemory, s)
	}
	if n > maxMemory/mul {
		return 0, fmt.Errorf("%w: %q is too large", ErrMemory, s)
	}
	return Memory(n * mul), nil
}

// String prints the size as scontrol and squeue do: the largest unit that keeps
// it exact to a half ("1G", "62.50G", "1000M"), "0" for none.
func (m Memory) String() string { return FormatUnits(float64(m), UnitMega, UnitsExact) }

// Bytes returns the size in bytes, at most the largest int64.
func (m Memory) Bytes() int64 {
	if m > math.MaxInt64>>20 {
		return math.MaxInt64
	}
	return int64(m) << 20
}

// Unit is a power of 1024 that a number is counted in.
type Unit int

// The units, in the order of their letters.
const (
	UnitNone Unit = iota
	UnitKilo
	UnitMega
	UnitGiga
	UnitTera
	UnitPeta
)

var unitLetters = [...]string{"", "K", "M", "G", "T", "P"}

// String is the unit's letter, empty for UnitNone.
func (u Unit) String() string {
	if u < UnitNone || u > UnitPeta {
		return "?"
	}
	return unitLetters[u]
}

// ParseUnit reads the letter of an option such as sacct's --units.
func ParseUnit(s string) (Unit, bool) {
	for u := UnitKilo; u <= UnitPeta; u++ {
		if strings.EqualFold(s, unitLetters[u]) {
			return u, true
		}
	}
	return UnitNone, false
}

// UnitMode says how FormatUnits chooses the unit.
type UnitMode int

const (
	// UnitsExact goes up while no more than a half is lost: Slurm's default.
	UnitsExact UnitMode = iota
	// UnitsShort goes up as far as possible: "1.95G".
	UnitsShort
	// UnitsKeep keeps the unit, as --noconvert asks.
	UnitsKeep
)

// FormatUnits prints num, counted in unit from, as Slurm prints numbers with
// units: two decimals if it isn't whole, "0" without a letter.
func FormatUnits(num float64, from Unit, mode UnitMode) string {
	if num < 1 && num > -1 {
		return "0"
	}
	if num < 0 {
		return "-" + FormatUnits(-num, from, mode)
	}
	for mode != UnitsKeep && num >= 1024 && from < UnitPeta {
		if mode == UnitsExact && math.Mod(math.Trunc(num), 512) != 0 {
			break
		}
		num /= 1024
		from++
	}
	return formatNumber(num, from)
}

// FormatUnitsAs prints num, counted in unit from, in the unit to, as sacct's
// --units does.
func FormatUnitsAs(num float64, from, to Unit) string {
	if num < 1 && num > -1 {
		return "0"
	}
	return formatNumber(num*math.Pow(1024, float64(from-to)), to)
}

func formatNumber(num float64, u Unit) string {
	if num == math.Trunc(num) && math.Abs(num) < 1<<63 {
		return strconv.FormatInt(int64(num), 10) + u.String()
	}
	return strconv.FormatFloat(num, 'f', 2, 64) + u.String()
}
