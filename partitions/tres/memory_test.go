package tres_test

import (
	"errors"
	"testing"

	"github.com/sbatchd/sbatchd/partitions/tres"
)

func TestParseMemory(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   string
		want tres.Memory
	}{
		{"0", 0},
		{"100", 100},
		{"4000", 4000},
		{"1024K", 1},
		{"1025k", 2},
		{"1K", 1},
		{"0K", 0},
		{"10MB", 10},
		{"1875m", 1875},
		{"1G", 1024},
		{"1g", 1024},
		{"4GB", 4096},
		{"4gb", 4096},
		{"999T", 999 << 20},
		{"2tb", 2 << 20},
		{"007", 7},
	}
	for _, tt := range tests {
		if got, err := tres.ParseMemory(tt.in); err != nil || got != tt.want {
			t.Errorf("ParseMemory(%q) = %d, %v; want %d", tt.in, got, err, tt.want)
		}
	}
	for _, in := range []string{
		"", "-5", "+5", " 5", "5 ", "1.5G", "10Q", "abc", "G", "10B", "10GG", "10BG", "1P", "0x10", "1_000",
		"99999999999999999999", "18446744073709551615", "9999999999999T", "1Gi",
	} {
		if got, err := tres.ParseMemory(in); !errors.Is(err, tres.ErrMemory) {
			t.Errorf("ParseMemory(%q) = %d, %v; want ErrMemory", in, got, err)
		}
	}
}

func TestMemoryString(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   tres.Memory
		want string
	}{
		{0, "0"},
		{1, "1M"},
		{100, "100M"},
		{1000, "1000M"},
		{1024, "1G"},
		{1536, "1.50G"},
		{1600, "1600M"},
		{6500, "6500M"},
		{10240, "10G"},
		{16000, "16000M"},
		{64000, "62.50G"},
		{80000, "80000M"},
		{100000, "100000M"},
		{999 << 20, "999T"},
		{1 << 20, "1T"},
		{3 << 19, "1.50T"},
		{1 << 30, "1P"},
	}
	for _, tt := range tests {
		if got := tt.in.String(); got != tt.want {
			t.Errorf("Memory(%d) = %q, want %q", uint64(tt.in), got, tt.want)
		}
	}
}

func TestFormatUnits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		num  float64
		from tres.Unit
		mode tres.UnitMode
		want string
	}{
		{2000, tres.UnitMega, tres.UnitsShort, "1.95G"},
		{2000, tres.UnitMega, tres.UnitsExact, "2000M"},
		{2048, tres.UnitMega, tres.UnitsKeep, "2048M"},
		{1536, tres.UnitNone, tres.UnitsExact, "1.50K"},
		{900, tres.UnitNone, tres.UnitsShort, "900"},
		{0.3, tres.UnitKilo, tres.UnitsShort, "0"},
		{-2048, tres.UnitKilo, tres.UnitsShort, "-2M"},
		{5 << 20, tres.UnitTera, tres.UnitsShort, "5120P"},
	}
	for _, tt := range tests {
		if got := tres.FormatUnits(tt.num, tt.from, tt.mode); got != tt.want {
			t.Errorf("FormatUnits(%v, %v, %v) = %q, want %q", tt.num, tt.from, tt.mode, got, tt.want)
		}
	}
	if got := tres.FormatUnitsAs(200, tres.UnitMega, tres.UnitGiga); got != "0.20G" {
		t.Errorf("200M as G = %q", got)
	}
	if got := tres.FormatUnitsAs(3, tres.UnitGiga, tres.UnitMega); got != "3072M" {
		t.Errorf("3G as M = %q", got)
	}
	if u, ok := tres.ParseUnit("g"); !ok || u != tres.UnitGiga {
		t.Errorf("ParseUnit(g) = %v, %v", u, ok)
	}
	if _, ok := tres.ParseUnit("x"); ok {
		t.Error("ParseUnit(x) is accepted")
	}
}

func FuzzMemory(f *testing.F) {
	for _, s := range []string{"0", "1024K", "4GB", "1.5G", "-1", "999T"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := tres.ParseMemory(s)
		if err != nil {
			return
		}
		if text := m.String(); text == "" {
			t.Fatalf("%q prints empty", s)
		}
		if m.Bytes() < 0 {
			t.Fatalf("%q has %d bytes", s, m.Bytes())
		}
	})
}
