package tres_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/partitions/tres"
)

func TestParseTRES(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   string
		want tres.TRES
		text string
	}{
		{"", tres.TRES{}, ""},
		{"cpu=1,mem=100M,node=1,billing=1,gres/gpu=1", tres.TRES{"cpu": 1, "mem": 100, "node": 1, "billing": 1, "gres/gpu": 1}, ""},
		{"gres/gpu=2,node=1,mem=16G,cpu=4", tres.TRES{"cpu": 4, "mem": 16384, "node": 1, "gres/gpu": 2}, "cpu=4,mem=16G,node=1,gres/gpu=2"},
		{"cpu=72,mem=80000M,node=2,billing=72", tres.TRES{"cpu": 72, "mem": 80000, "node": 2, "billing": 72}, ""},
		{"CPU=8,Mem=64000", tres.TRES{"cpu": 8, "mem": 64000}, "cpu=8,mem=62.50G"},
		{"gres/gpu:a100=2,gres/gpu=3", tres.TRES{"gres/gpu": 3, "gres/gpu:a100": 2}, "gres/gpu=3,gres/gpu:a100=2"},
		{"GRES/gpu:A100=2", tres.TRES{"gres/gpu:A100": 2}, "gres/gpu:A100=2"},
		{"license/matlab=1,energy=5k", tres.TRES{"license/matlab": 1, "energy": 5120}, "energy=5120,license/matlab=1"},
		{"cpu=-1", tres.TRES{"cpu": tres.Unlimited}, "cpu=-1"},
		{"cpu=0,node=1", tres.TRES{"cpu": 0, "node": 1}, "node=1"},
	}
	for _, tt := range tests {
		got, err := tres.ParseTRES(tt.in)
		if err != nil {
			t.Errorf("ParseTRES(%q): %v", tt.in, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("ParseTRES(%q) (-want +got):\n%s", tt.in, diff)
		}
		want := tt.text
		if want == "" {
			want = tt.in
		}
		if got.String() != want {
			t.Errorf("%q prints %q, want %q", tt.in, got, want)
		}
	}
	for _, in := range []string{"cpu", "cpu=", "=1", "cpu=x", "cpu=1,", "cpu=1,cpu=2", "mem=1.5G", "cpu=1.5", "cpu=-2", "cpu=99999999999999999999"} {
		if got, err := tres.ParseTRES(in); !errors.Is(err, tres.ErrTRES) {
			t.Errorf("ParseTRES(%q) = %v, %v; want ErrTRES", in, got, err)
		}
	}
}

func TestTRESArithmetic(t *testing.T) {
	t.Parallel()
	a := tres.TRES{"cpu": 4, "mem": 100}
	b := tres.TRES{"cpu": 1, "mem": 100, "gres/gpu": 2}
	if got := a.Add(b).String(); got != "cpu=5,mem=200M,gres/gpu=2" {
		t.Errorf("Add = %s", got)
	}
	if got := a.Add(b).Sub(b); !got.Equal(a) {
		t.Errorf("Add then Sub = %s", got)
	}
	if got := b.Sub(a).String(); got != "gres/gpu=2" {
		t.Errorf("Sub = %s", got)
	}
	if a.Fits(b) || !a.Add(b).Fits(b) || !a.Fits(nil) {
		t.Error("Fits")
	}
	if a.String() != "cpu=4,mem=100M" {
		t.Errorf("operand changed: %s", a)
	}
	if got := (tres.TRES{"cpu": tres.Unlimited}).Add(a)["cpu"]; got != tres.Unlimited {
		t.Errorf("overflow = %d", got)
	}
	if got := (tres.TRES{"cpu": 0, "mem": 0}).Limits(); got != "cpu=0,mem=0" {
		t.Errorf("Limits = %s", got)
	}
	c := tres.TRES(nil).Clone()
	c.AddGres([]tres.Gres{{Name: "gpu", Type: "a100", Count: 2}, {Name: "gpu", Count: 1}})
	if got := c.String(); got != "gres/gpu=3,gres/gpu:a100=2" {
		t.Errorf("AddGres = %s", got)
	}
}

func TestParseGres(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in            string
		want          []tres.Gres
		node, request string
	}{
		{"", nil, "(null)", ""},
		{"none", nil, "(null)", ""},
		{"(null)", nil, "(null)", ""},
		{"gpu", []tres.Gres{{Name: "gpu", Count: 1}}, "gpu:1", "gres/gpu:1"},
		{"gpu:2", []tres.Gres{{Name: "gpu", Count: 2}}, "gpu:2", "gres/gpu:2"},
		{"gpu:a100", []tres.Gres{{Name: "gpu", Type: "a100", Count: 1}}, "gpu:a100:1", "gres/gpu:a100:1"},
		{"gpu:a100:2", []tres.Gres{{Name: "gpu", Type: "a100", Count: 2}}, "gpu:a100:2", "gres/gpu:a100:2"},
		{"gres/gpu:2", []tres.Gres{{Name: "gpu", Count: 2}}, "gpu:2", "gres/gpu:2"},
		{"gres:gpu:2", []tres.Gres{{Name: "gpu", Count: 2}}, "gpu:2", "gres/gpu:2"},
		{"gres/gpu=2", []tres.Gres{{Name: "gpu", Count: 2}}, "gpu:2", "gres/gpu:2"},
		{"gpu=1", []tres.Gres{{Name: "gpu", Count: 1}}, "gpu:1", "gres/gpu:1"},
		{"gpu:a100=2", []tres.Gres{{Name: "gpu", Type: "a100", Count: 2}}, "gpu:a100:2", "gres/gpu:a100:2"},
		{"gpu:0", []tres.Gres{{Name: "gpu"}}, "gpu:0", "gres/gpu:0"},
		{"nvme:1k", []tres.Gres{{Name: "nvme", Count: 1024}}, "nvme:1024", "gres/nvme:1024"},
		{"bw:2M", []tres.Gres{{Name: "bw", Count: 2 << 20}}, "bw:2097152", "gres/bw:2097152"},
		{"craynetwork:no_consume:4", []tres.Gres{{Name: "craynetwork", Count: 4, NoConsume: true}}, "craynetwork:no_consume:4", "gres/craynetwork:no_consume:4"},
		{
			"gpu:nvidia_h100_80gb_hbm3_1g.10gb:1,gpu:3g.20gb",
			[]tres.Gres{{Name: "gpu", Type: "nvidia_h100_80gb_hbm3_1g.10gb", Count: 1}, {Name: "gpu", Type: "3g.20gb", Count: 1}},
			"gpu:nvidia_h100_80gb_hbm3_1g.10gb:1,gpu:3g.20gb:1", "gres/gpu:nvidia_h100_80gb_hbm3_1g.10gb:1,gres/gpu:3g.20gb:1",
		},
		{"gpu:v100:1,nvme:10", []tres.Gres{{Name: "gpu", Type: "v100", Count: 1}, {Name: "nvme", Count: 10}}, "gpu:v100:1,nvme:10", "gres/gpu:v100:1,gres/nvme:10"},
	}
	for _, tt := range tests {
		got, err := tres.ParseGres(tt.in)
		if err != nil {
			t.Errorf("ParseGres(%q): %v", tt.in, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("ParseGres(%q) (-want +got):\n%s", tt.in, diff)
		}
		if s := tres.FormatGres(got); s != tt.node {
			t.Errorf("%q prints %q, want %q", tt.in, s, tt.node)
		}
		if s := tres.FormatGresRequest(got); s != tt.request {
			t.Errorf("%q asks %q, want %q", tt.in, s, tt.request)
		}
	}
	for _, in := range []string{"gpu:v100:x", "gpu:", ":2", "gpu:a:b:1", "gpu,", "gpu:-1", "gpu:1.5:", "gpu:99999999999999999999", "gpu:1,gpu:2", "gpu=", "g pu:1", "gpu:2x"} {
		if got, err := tres.ParseGres(in); !errors.Is(err, tres.ErrGres) {
			t.Errorf("ParseGres(%q) = %v, %v; want ErrGres", in, got, err)
		}
	}
}

func TestParseGPUs(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"2": "gpu:2", "l40s:1": "gpu:l40s:1", "a100:2,v100:1": "gpu:a100:2,gpu:v100:1", "T4": "gpu:T4:1", "0": "gpu:0"} {
		got, err := tres.ParseGPUs(in)
		if err != nil || tres.FormatGres(got) != want {
			t.Errorf("ParseGPUs(%q) = %v, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"-1", "a:b:1", "1,", "<N>"} {
		if got, err := tres.ParseGPUs(in); err == nil {
			t.Errorf("ParseGPUs(%q) = %v", in, got)
		}
	}
}

func TestParseGresRange(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"gpu:a100:1-8":  "gpu:a100:1-8",
		"gpu:2-4":       "gpu:2-4",
		"gpu:rtx3090:2": "gpu:rtx3090:2",
		"gpu":           "gpu:1",
		"":              "",
	} {
		got, err := tres.ParseGresRange(in)
		if err != nil || tres.FormatGresRange(got) != want {
			t.Errorf("ParseGresRange(%q) = %v, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"gpu:a100:8-1", "gpu:1-", "gpu:-1", "gpu:0", "gpu:1-2-3", "gpu:1-8,gpu:2", "gpu:no_consume:1"} {
		if got, err := tres.ParseGresRange(in); !errors.Is(err, tres.ErrGres) {
			t.Errorf("ParseGresRange(%q) = %v, %v; want ErrGres", in, got, err)
		}
	}
}

func FuzzGres(f *testing.F) {
	for _, s := range []string{"gpu", "gpu:2", "gres/gpu:a100:2,nvme:1k", "gpu:no_consume:1", "gpu=1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := tres.ParseGres(s)
		if err != nil {
			return
		}
		text := tres.FormatGres(list)
		again, err := tres.ParseGres(text)
		if err != nil {
			t.Fatalf("%q -> %q: %v", s, text, err)
		}
		if diff := cmp.Diff(list, again); diff != "" {
			t.Fatalf("%q -> %q:\n%s", s, text, diff)
		}
	})
}

func FuzzTRES(f *testing.F) {
	for _, s := range []string{"cpu=1,mem=100M,node=1,billing=1,gres/gpu=1", "mem=-1", "gres/gpu:A=2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := tres.ParseTRES(s)
		if err != nil {
			return
		}
		for _, n := range a {
			if n != tres.Unlimited && n > 1<<40 {
				return
			}
		}
		text := a.Limits()
		b, err := tres.ParseTRES(text)
		if err != nil {
			t.Fatalf("%q -> %q: %v", s, text, err)
		}
		if a.Limits() != b.Limits() {
			t.Fatalf("%q -> %q -> %q", s, text, b.Limits())
		}
	})
}
