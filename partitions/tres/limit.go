package tres

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Minutes is a time limit in Slurm's unit.
type Minutes uint32

const (
	// Infinite is the time limit UNLIMITED.
	Infinite Minutes = math.MaxUint32
	// NoVal is a time limit that was not given; Slurm prints NONE or NOT_SET.
	NoVal Minutes = math.MaxUint32 - 1
)

// Forever is the duration of an unlimited time limit.
const Forever time.Duration = math.MaxInt64

// ErrTimeLimit is returned for a text that is not a time limit.
var ErrTimeLimit = errors.New("invalid time limit")

// maxSeconds bounds time limits (68 years): above it Slurm prints INVALID.
const maxSeconds = math.MaxInt32

// ParseTimeLimit reads minutes, minutes:seconds, hours:minutes:seconds,
// days-hours, days-hours:minutes, days-hours:minutes:seconds, or INFINITE,
// UNLIMITED or -1, and rounds up to whole minutes. "0" is 0: an option reads it
// as no limit, a config key as zero. Anything else, fractions too, is
// ErrTimeLimit.
func ParseTimeLimit(s string) (Minutes, error) {
	d, err := ParseDuration(s)
	if err != nil {
		return 0, err
	}
	return MinutesOf(d), nil
}

// MinutesOf rounds a duration up to whole minutes; Forever is Infinite.
func MinutesOf(d time.Duration) Minutes {
	if d == Forever {
		return Infinite
	}
	return Minutes((d + time.Minute - 1) / time.Minute)
}

// ParseDuration reads the forms of ParseTimeLimit to the second; without a limit
// it is Forever. A plain number is minutes.
func ParseDuration(s string) (time.Duration, error) {
	if s == "-1" || strings.EqualFold(s, "INFINITE") || strings.EqualFold(s, "UNLIMITED") {
		return Forever, nil
	}
	bad := fmt.Errorf("%w: %q", ErrTimeLimit, s)
	days, clock, hasDays := strings.Cut(s, "-")
	var sec int64
	if hasDays {
		n, ok := parseField(days)
		if !ok {
			return 0, bad
		}
		sec = n * 24 * 3600
	} else {
		clock = s
	}
	var f [3]int64
	n := 0
	if clock != "" || !hasDays {
		for text := range strings.SplitSeq(clock, ":") {
			if n == len(f) {
				return 0, bad
			}
			v, ok := parseField(text)
			if !ok {
				return 0, bad
			}
			f[n] = v
			n++
		}
	}
	switch {
	case hasDays, n == 3: // hours first
		sec += f[0]*3600 + f[1]*60 + f[2]
	default: // minutes first
		sec += f[0]*60 + f[1]
	}
	if sec > maxSeconds {
		return 0, bad
	}
	return time.Duration(sec) * time.Second, nil
}

// parseField reads digits only, small enough that sums cannot overflow.
func parseField(s string) (int64, bool) {
	if len(s) > 12 {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err == nil
}

// Duration returns the limit as a duration; Infinite is Forever, NoVal is 0.
func (m Minutes) Duration() time.Duration {
	switch m {
	case Infinite:
		return Forever
	case NoVal:
		return 0
	}
	return time.Duration(m) * time.Minute
}

// String prints "[D-]HH:MM:SS", UNLIMITED or NONE, as scontrol and sinfo's
// config columns do.
func (m Minutes) String() string {
	switch m {
	case Infinite:
		return "UNLIMITED"
	case NoVal:
		return "NONE"
	}
	return FormatDuration(m.Duration())
}

// Short prints "[D-][H:]M:SS", UNLIMITED or NOT_SET, as squeue does.
func (m Minutes) Short() string {
	switch m {
	case Infinite:
		return "UNLIMITED"
	case NoVal:
		return "NOT_SET"
	}
	return FormatElapsed(m.Duration())
}

// FormatDuration prints whole seconds as "[D-]HH:MM:SS"; Forever is UNLIMITED
// and a negative duration INVALID.
func FormatDuration(d time.Duration) string {
	days, h, m, s, word := clock(d)
	switch {
	case word != "":
		return word
	case days > 0:
		return fmt.Sprintf("%d-%02d:%02d:%02d", days, h, m, s)
	}
	return fmt.Sprintf("%02d:%02d:%02d", h, m, s)
}

// FormatElapsed prints whole seconds as squeue does: "0:05", "1:02:03",
// "2-03:04:05".
func FormatElapsed(d time.Duration) string {
	days, h, m, s, word := clock(d)
	switch {
	case word != "":
		return word
	case days > 0:
		return fmt.Sprintf("%d-%02d:%02d:%02d", days, h, m, s)
	case h > 0:
		return fmt.Sprintf("%d:%02d:%02d", h, m, s)
	}
	return fmt.Sprintf("%d:%02d", m, s)
}

func clock(d time.Duration) (days, h, m, s int64, word string) {
	if d == Forever {
		return 0, 0, 0, 0, "UNLIMITED"
	}
	if d < 0 {
		return 0, 0, 0, 0, "INVALID"
	}
	sec := int64(d / time.Second)
	return sec / 86400, sec / 3600 % 24, sec / 60 % 60, sec % 60, ""
}
