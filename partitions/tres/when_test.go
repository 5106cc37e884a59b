package tres_test

import (
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
)

// now is a Tuesday afternoon, five and a half hours east of UTC.
var now = time.Date(2026, 6, 16, 14, 30, 10, 500, time.FixedZone("IST", 19800))

func TestParseTime(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want, past string }{
		{"2035-01-01", "2035-01-01T00:00:00", ""},
		{"2035-01-01T00:00:00", "2035-01-01T00:00:00", ""},
		{"2035-01-02T03:04", "2035-01-02T03:04:00", ""},
		{"2020-01-01", "2020-01-01T00:00:00", ""},
		{"2035-1-2 3:04", "2035-01-02T03:04:00", ""},
		{"1970-01-01-00:00:01", "1970-01-01T00:00:01", ""},
		{"16:00", "2026-06-16T16:00:00", ""},
		{"14:30:10", "2026-06-16T14:30:10", ""},
		{"14:30:09", "2026-06-17T14:30:09", "2026-06-16T14:30:09"},
		{"9:05", "2026-06-17T09:05:00", "2026-06-16T09:05:00"},
		{"9:05 PM", "2026-06-16T21:05:00", ""},
		{"12:00am", "2026-06-17T00:00:00", "2026-06-16T00:00:00"},
		{"12:00pm", "2026-06-17T12:00:00", "2026-06-16T12:00:00"},
		{"0620", "2026-06-20T00:00:00", "2025-06-20T00:00:00"},
		{"0610", "2027-06-10T00:00:00", "2026-06-10T00:00:00"},
		{"062030", "2030-06-20T00:00:00", ""},
		{"6/20", "2026-06-20T00:00:00", "2025-06-20T00:00:00"},
		{"06/20/30", "2030-06-20T00:00:00", ""},
		{"06/20/30-12:34", "2030-06-20T12:34:00", ""},
		{"06/20-12:34:56", "2026-06-20T12:34:56", "2025-06-20T12:34:56"},
		{"06.20.30", "2030-06-20T00:00:00", ""},
		{"today", "2026-06-16T00:00:00", ""},
		{"tomorrow", "2026-06-17T00:00:00", ""},
		{"tomorrow 9:00", "2026-06-17T09:00:00", ""},
		{"9:00 tomorrow", "2026-06-17T09:00:00", ""},
		{"midnight", "2026-06-17T00:00:00", "2026-06-16T00:00:00"},
		{"noon", "2026-06-17T12:00:00", "2026-06-16T12:00:00"},
		{"elevenses", "2026-06-17T11:00:00", "2026-06-16T11:00:00"},
		{"fika", "2026-06-16T15:00:00", ""},
		{"teatime", "2026-06-16T16:00:00", ""},
		{"tomorrow noon", "2026-06-17T12:00:00", ""},
		{"now", "2026-06-16T14:30:10", ""},
		{"NOW", "2026-06-16T14:30:10", ""},
		{"now+1hour", "2026-06-16T15:30:10", ""},
		{"now+12hours", "2026-06-17T02:30:10", ""},
		{"now + 2 days", "2026-06-18T14:30:10", ""},
		{"now+60", "2026-06-16T14:31:10", ""},
		{"now-30minutes", "2026-06-16T14:00:10", ""},
		{"now+1week", "2026-06-23T14:30:10", ""},
		{"uts1000000000", "2001-09-09T07:16:40", ""},
		{" 16:00 ", "2026-06-16T16:00:00", ""},
	}
	for _, tt := range tests {
		for _, mode := range []struct {
			want  string
			parse func(string, time.Time) (time.Time, error)
		}{{tt.want, tres.ParseTime}, {tt.past, tres.ParsePastTime}} {
			if mode.want == "" {
				mode.want = tt.want
			}
			got, err := mode.parse(tt.in, now)
			if err != nil || tres.FormatTime(got) != mode.want {
				t.Errorf("%q = %s, %v; want %s", tt.in, tres.FormatTime(got), err, mode.want)
			}
		}
	}
}

func TestParseTimeRefuses(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"junk":        "Invalid time specification (pos=0): junk",
		"":            "Invalid time specification (pos=0): ",
		"tomorrowx":   "Invalid time specification (pos=8): tomorrowx",
		"now+1parsec": "Invalid time specification (pos=5): now+1parsec",
		"now+":        "Invalid time specification (pos=4): now+",
	} {
		if _, err := tres.ParseTime(in, now); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", in, err, want)
		}
	}
	for _, in := range []string{
		"25:00", "12:60", "12:00:61", "13:00 PM", "2026-13-01", "2026-01-32", "2026-01", "13/01", "101", "12",
		"2026-01-01X12:00", "2026-01-01T", "uts", "now+99999999999", "nowish", "12:0", "1:2:3",
		"now+999999999weeks",
	} {
		if got, err := tres.ParseTime(in, now); err == nil {
			t.Errorf("%q is accepted as %s", in, got)
		}
	}
}

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"now+1hour", "2035-01-01T00:00:00", "9:05 PM", "06/20/30-12:34", "uts1", "tomorrow noon"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := tres.ParseTime(s, now)
		if err != nil || got.Year() > 9999 || got.Year() < 1000 {
			return
		}
		again, err := tres.ParseTime(tres.FormatTime(got), now)
		if err != nil || !again.Equal(got) {
			t.Fatalf("%q -> %s -> %s, %v", s, got, again, err)
		}
	})
}
