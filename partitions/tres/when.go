package tres

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// TimeError says where a point in time could not be read.
type TimeError struct {
	Text string
	Pos  int // offset in bytes
}

// Error is the line that Slurm's commands print.
func (e *TimeError) Error() string {
	return fmt.Sprintf("Invalid time specification (pos=%d): %s", e.Pos, e.Text)
}

// ParseTime reads a point in time to come, as --begin and --deadline take it, in
// now's time zone: HH:MM[:SS] [AM|PM], MMDD[YY], MM/DD[/YY] or MM.DD[.YY] with
// -HH:MM[:SS], YYYY-MM-DD[THH:MM[:SS]], today, tomorrow, midnight, noon,
// elevenses, fika, teatime, now[{+|-}N[seconds|minutes|hours|days|weeks]],
// uts<epoch>, and a date and a time of day together in either order. A time of
// day that has passed is tomorrow's, a date without a year that has passed is
// next year's; a full date stays as given. The error is a *TimeError.
func ParseTime(s string, now time.Time) (time.Time, error) { return parseTime(s, now, false) }

// ParsePastTime reads like ParseTime a point in a record of what was, as sacct's
// -S and -E take it: a time of day alone is today's, a date without a year that
// lies ahead is last year's.
func ParsePastTime(s string, now time.Time) (time.Time, error) { return parseTime(s, now, true) }

// FormatTime prints YYYY-MM-DDTHH:MM:SS in t's time zone.
func FormatTime(t time.Time) string { return t.Format("2006-01-02T15:04:05") }

// when collects what a text has said so far; -1 means not yet.
type when struct {
	text string
	pos  int
	now  time.Time

	year, month, day     int
	hour, minute, second int
	exact                time.Time // now+..., uts...: nothing else counts
}

func parseTime(s string, now time.Time, past bool) (time.Time, error) {
	w := &when{text: s, now: now, year: -1, month: -1, day: -1, hour: -1, minute: -1, second: -1}
	for w.skipBlanks(); w.pos < len(s); w.skipBlanks() {
		if at := w.pos; !w.word() && !w.number() {
			return time.Time{}, &TimeError{Text: s, Pos: max(at, w.pos)}
		}
	}
	if !w.exact.IsZero() {
		return w.exact, nil
	}
	if w.hour < 0 && w.month < 0 {
		return time.Time{}, &TimeError{Text: s, Pos: len(s)}
	}
	return w.resolve(past), nil
}

// resolve fills in what the text left open.
func (w *when) resolve(past bool) time.Time {
	now := w.now
	hour, minute, second := max(w.hour, 0), max(w.minute, 0), max(w.second, 0)
	date := func(y int, m time.Month, d int) time.Time {
		return time.Date(y, m, d, hour, minute, second, 0, now.Location())
	}
	if w.month < 0 { // a time of day
		t := date(now.Year(), now.Month(), now.Day())
		if t.Before(now.Truncate(time.Second)) && !past {
			t = date(now.Year(), now.Month(), now.Day()+1)
		}
		return t
	}
	if w.year >= 0 {
		return date(w.year, time.Month(w.month), w.day)
	}
	year := now.Year()
	month, day := int(now.Month()), now.Day()
	ahead := w.month > month || w.month == month && w.day > day
	behind := w.month < month || w.month == month && w.day < day
	switch {
	case past && ahead:
		year--
	case !past && behind:
		year++
	}
	return date(year, time.Month(w.month), w.day)
}

func (w *when) skipBlanks() {
	for w.pos < len(w.text) && (w.text[w.pos] == ' ' || w.text[w.pos] == '\t' || w.text[w.pos] == '\n') {
		w.pos++
	}
}

// take moves over the word if the text goes on with it, in any case.
func (w *when) take(word string) bool {
	rest := w.text[w.pos:]
	if len(rest) < len(word) || !strings.EqualFold(rest[:len(word)], word) {
		return false
	}
	w.pos += len(word)
	return true
}

// teaTimes are the names of times of day.
var teaTimes = []struct {
	name string
	hour int
}{{"midnight", 0}, {"noon", 12}, {"elevenses", 11}, {"fika", 15}, {"teatime", 16}}

func (w *when) word() bool {
	switch {
	case w.take("uts"):
		n, ok := w.digits(1, 12)
		w.exact = time.Unix(int64(n), 0).In(w.now.Location())
		return ok
	case w.take("now"):
		return w.delta()
	case w.take("today"):
		return w.setDate(w.now)
	case w.take("tomorrow"):
		return w.setDate(w.now.AddDate(0, 0, 1))
	}
	for _, t := range teaTimes {
		if w.take(t.name) {
			w.hour, w.minute, w.second = t.hour, 0, 0
			return true
		}
	}
	return false
}

func (w *when) setDate(t time.Time) bool {
	w.year, w.month, w.day = t.Year(), int(t.Month()), t.Day()
	return true
}

// units of "now+N", longest name first so that "hours" is not read as "hour".
var units = []struct {
	name string
	d    time.Duration
}{
	{"seconds", time.Second},
	{"second", time.Second},
	{"minutes", time.Minute},
	{"minute", time.Minute},
	{"hours", time.Hour},
	{"hour", time.Hour},
	{"days", 24 * time.Hour},
	{"day", 24 * time.Hour},
	{"weeks", 7 * 24 * time.Hour},
	{"week", 7 * 24 * time.Hour},
}

// delta reads what follows "now".
func (w *when) delta() bool {
	w.exact = w.now.Truncate(time.Second)
	w.skipBlanks()
	sign := time.Duration(1)
	switch {
	case w.pos == len(w.text):
		return true
	case w.take("+"):
	case w.take("-"):
		sign = -1
	default:
		return false
	}
	w.skipBlanks()
	n, ok := w.digits(1, 9)
	if !ok {
		return false
	}
	w.skipBlanks()
	unit := time.Second
	for _, u := range units {
		if w.take(u.name) {
			unit = u.d
			break
		}
	}
	w.skipBlanks()
	if w.pos != len(w.text) || time.Duration(n) > Forever/unit {
		return false
	}
	w.exact = w.exact.Add(sign * time.Duration(n) * unit)
	return true
}

// number reads a time of day or a date.
func (w *when) number() bool {
	rest := w.text[w.pos:]
	if len(rest) > 2 && (rest[1] == ':' || rest[2] == ':') {
		return w.clock()
	}
	if len(rest) >= 8 && rest[4] == '-' {
		return w.isoDate()
	}
	return w.shortDate()
}

// clock reads HH:MM[:SS] [AM|PM].
func (w *when) clock() bool {
	hour, ok := w.digits(1, 2)
	if !ok || !w.take(":") {
		return false
	}
	minute, ok := w.digits(2, 2)
	if !ok || minute > 59 {
		return false
	}
	second := 0
	if w.take(":") {
		if second, ok = w.digits(2, 2); !ok || second > 59 {
			return false
		}
	}
	w.skipBlanks()
	switch {
	case w.take("AM"):
		if hour > 12 {
			return false
		}
		hour %= 12
	case w.take("PM"):
		if hour > 12 {
			return false
		}
		hour = hour%12 + 12
	}
	w.hour, w.minute, w.second = hour, minute, second
	return hour <= 23
}

// isoDate reads YYYY-MM-DD and the T before a time of day.
func (w *when) isoDate() bool {
	year, ok := w.digits(4, 4)
	if !ok || !w.take("-") {
		return false
	}
	month, ok := w.digits(1, 2)
	if !ok || !w.take("-") {
		return false
	}
	day, ok := w.digits(1, 2)
	if !ok {
		return false
	}
	w.year = year
	return w.monthDay(month, day) && (w.pos == len(w.text) || w.beforeClock())
}

// shortDate reads MMDD[YY], MM/DD[/YY] and MM.DD[.YY].
func (w *when) shortDate() bool {
	start := w.pos
	month, ok := w.digits(1, 2)
	if !ok {
		return false
	}
	sep := ""
	for _, s := range [...]string{"/", "."} {
		if w.take(s) {
			sep = s
			break
		}
	}
	day, ok := w.digits(1, 2)
	if !ok {
		return false
	}
	hasYear := sep != "" && w.take(sep)
	if sep == "" {
		if w.pos != start+4 {
			return false
		}
		hasYear = w.pos < len(w.text) && isDigit(w.text[w.pos])
	}
	if hasYear {
		year, ok := w.digits(2, 2)
		if !ok {
			return false
		}
		w.year = 2000 + year
	}
	return w.monthDay(month, day) && (w.pos == len(w.text) || w.beforeClock())
}

// beforeClock reads what may stand between a date and a time of day.
func (w *when) beforeClock() bool {
	if w.text[w.pos] == ' ' || w.text[w.pos] == '\t' || w.text[w.pos] == '\n' {
		return true
	}
	return (w.take("T") || w.take("-")) && w.clock()
}

func (w *when) monthDay(month, day int) bool {
	w.month, w.day = month, day
	return month >= 1 && month <= 12 && day >= 1 && day <= 31
}

// digits reads at least atLeast and at most atMost digits.
func (w *when) digits(atLeast, atMost int) (int, bool) {
	end := w.pos
	for end < len(w.text) && end-w.pos < atMost && isDigit(w.text[end]) {
		end++
	}
	if end-w.pos < atLeast {
		return 0, false
	}
	n, err := strconv.Atoi(w.text[w.pos:end])
	w.pos = end
	return n, err == nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
