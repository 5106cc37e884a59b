package assoc_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/assoc"
)

func TestFairTree(t *testing.T) {
	t.Parallel()
	two := uint32(2)
	b := must(t, fresh(t), account("a", "", assoc.Settings{Shares: &two}), account("b", "", assoc.Settings{}), user("u1", "a"), user("u2", "a"), user("u3", "b"))
	for _, tt := range []struct {
		name string
		used map[string]float64
		want string // user=factor
	}{
		{"nobody used anything", nil, "root=1.00 u1=1.00 u2=1.00 u3=1.00"},
		// b is over its share, a under: all of a's users come before b's, however
		// much one of them used.
		{"accounts decide first", map[string]float64{"u1": 100, "u3": 100}, "root=1.00 u2=0.75 u1=0.50 u3=0.25"},
		{"equal users share a place", map[string]float64{"u1": 50, "u2": 50, "u3": 100}, "root=1.00 u1=0.75 u2=0.75 u3=0.25"},
	} {
		got := map[string]string{}
		for _, s := range b.Shares(cluster, func(a *assoc.Assoc) float64 { return tt.used[a.User] }) {
			if s.Assoc.User != "" {
				got[s.Assoc.User] = fmt.Sprintf("%.2f", s.Factor)
			}
		}
		for _, w := range strings.Fields(tt.want) {
			name, factor, _ := strings.Cut(w, "=")
			if got[name] != factor {
				t.Errorf("%s: %s has %s, want %s", tt.name, name, got[name], factor)
			}
		}
	}
}

func TestSharesAddUp(t *testing.T) {
	t.Parallel()
	three := uint32(3)
	b := must(t, fresh(t), account("a", "", assoc.Settings{Shares: &three}), account("a1", "a", assoc.Settings{}), user("u1", "a1"), user("u2", "a"))
	for _, s := range b.Shares(cluster, func(a *assoc.Assoc) float64 { return map[string]float64{"u1": 30, "u2": 10}[a.User] }) {
		switch s.Assoc.Account + "/" + s.Assoc.User {
		case "root/":
			if s.Usage != 40 || s.Depth != 0 {
				t.Errorf("root: %+v", s)
			}
		case "a/":
			if s.Norm != 0.75 || s.Effective != 1 || s.Level != 0.75 {
				t.Errorf("a: %+v", s)
			}
		case "a1/":
			if s.Norm != 0.5 || s.Effective != 0.75 || s.NormUsage != 0.75 || s.Depth != 2 {
				t.Errorf("a1: %+v", s)
			}
		}
	}
}

func TestDecay(t *testing.T) {
	t.Parallel()
	const week = 7 * 24 * time.Hour
	for _, tt := range []struct {
		name       string
		start, end time.Duration // ago
		half       time.Duration
		want       float64 // seconds
	}{
		{"fresh use counts nearly whole", time.Hour, 0, week, 3592.6},
		{"a week old use counts half", week + time.Hour, week, week, 1796.3},
		{"no decay", week + time.Hour, week, 0, 3600},
		{"not over yet", time.Hour, -time.Hour, 0, 3600},
		{"yet to come", -time.Hour, -2 * time.Hour, week, 0},
	} {
		if got := assoc.Decayed(now.Add(-tt.start), now.Add(-tt.end), now, tt.half); math.Abs(got-tt.want) > 0.1 {
			t.Errorf("%s: %.1f, want %.1f", tt.name, got, tt.want)
		}
	}
}
