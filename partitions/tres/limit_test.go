package tres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
)

func TestParseTimeLimit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in          string
		want        tres.Minutes
		long, short string
	}{
		{"0", 0, "00:00:00", "0:00"},
		{"5", 5, "00:05:00", "5:00"},
		{"90", 90, "01:30:00", "1:30:00"},
		{"0:30", 1, "00:01:00", "1:00"},
		{"1:30", 2, "00:02:00", "2:00"},
		{"10:30", 11, "00:11:00", "11:00"},
		{"90:00", 90, "01:30:00", "1:30:00"},
		{"00:60:00", 60, "01:00:00", "1:00:00"},
		{"1:0:0", 60, "01:00:00", "1:00:00"},
		{"90:00:00", 5400, "3-18:00:00", "3-18:00:00"},
		{"1-", 1440, "1-00:00:00", "1-00:00:00"},
		{"2-0", 2880, "2-00:00:00", "2-00:00:00"},
		{"0-1", 60, "01:00:00", "1:00:00"},
		{"0-01:30", 90, "01:30:00", "1:30:00"},
		{"1-00:00:00", 1440, "1-00:00:00", "1-00:00:00"},
		{"7-00", 10080, "7-00:00:00", "7-00:00:00"},
		{"7-00:00:01", 10081, "7-00:01:00", "7-00:01:00"},
		{"2-3:04:05", 3065, "2-03:05:00", "2-03:05:00"},
		{"infinite", tres.Infinite, "UNLIMITED", "UNLIMITED"},
		{"UNLIMITED", tres.Infinite, "UNLIMITED", "UNLIMITED"},
		{"-1", tres.Infinite, "UNLIMITED", "UNLIMITED"},
	}
	for _, tt := range tests {
		got, err := tres.ParseTimeLimit(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("ParseTimeLimit(%q) = %d, %v; want %d", tt.in, got, err, tt.want)
		}
		if got.String() != tt.long || got.Short() != tt.short {
			t.Errorf("%q prints %q and %q; want %q and %q", tt.in, got, got.Short(), tt.long, tt.short)
		}
	}
	for _, in := range []string{
		"", "1.5", "3600.0", "1:2:3:4", "1h", "INVALID", " 5", "5 ", "-5", "-", "1-2-3", "1-2:3:4:5",
		"1:", ":1", "::", "1-:", "+5", "99999999999", "0x10", "--1", "-2-0", "1 day", "NONE",
	} {
		if got, err := tres.ParseTimeLimit(in); !errors.Is(err, tres.ErrTimeLimit) {
			t.Errorf("ParseTimeLimit(%q) = %d, %v; want ErrTimeLimit", in, got, err)
		}
	}
}

func TestTimeLimitWords(t *testing.T) {
	t.Parallel()
	if tres.NoVal.String() != "NONE" || tres.NoVal.Short() != "NOT_SET" {
		t.Errorf("NoVal prints %q and %q", tres.NoVal, tres.NoVal.Short())
	}
	if tres.Infinite.Duration() != tres.Forever || tres.NoVal.Duration() != 0 {
		t.Error("durations of Infinite and NoVal")
	}
	if got := tres.FormatElapsed(-time.Second); got != "INVALID" {
		t.Errorf("negative: %q", got)
	}
	if got := tres.FormatElapsed(65 * time.Second); got != "1:05" {
		t.Errorf("65 s: %q", got)
	}
	if got := tres.FormatDuration(5 * time.Second); got != "00:00:05" {
		t.Errorf("5 s: %q", got)
	}
	if d, err := tres.ParseDuration("0:30"); err != nil || d != 30*time.Second {
		t.Errorf("ParseDuration(0:30) = %v, %v", d, err)
	}
}

func FuzzTimeLimit(f *testing.F) {
	for _, s := range []string{"1", "1:2", "1:2:3", "1-2", "1-2:3", "1-2:3:4", "-1", "INFINITE", "1-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := tres.ParseTimeLimit(s)
		if err != nil {
			return
		}
		again, err := tres.ParseTimeLimit(m.String())
		if err != nil || again != m {
			t.Fatalf("%q -> %v -> %v, %v", s, m, again, err)
		}
	})
}
