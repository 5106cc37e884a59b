package cloudburst_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
)

const uuid = "0b5f1c52-7f4c-4d54-9d0e-3a7f6f1c2b11"

func TestMoney(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]cloudburst.Money{
		"0.00":        {},
		"2.50USD":     {Micros: 2_500_000, Currency: "USD"},
		"60.00CNY":    {Micros: 60_000_000, Currency: "CNY"},
		"0.000001EUR": {Micros: 1, Currency: "EUR"},
		"-1.20USD":    {Micros: -1_200_000, Currency: "USD"},
	} {
		if got := m.String(); got != want {
			t.Errorf("%+v prints %q, want %q", m, got, want)
		}
	}
	price := cloudburst.Money{Micros: 3_600_000, Currency: "USD"}
	if got := price.Cost(100 * time.Second).String(); got != "0.10USD" {
		t.Errorf("100 s at 3.60/h cost %s", got)
	}
	if got := price.Cost(-time.Second); !got.IsZero() {
		t.Errorf("negative time costs %s", got)
	}
}

func TestTag(t *testing.T) {
	t.Parallel()
	tag := cloudburst.MakeTag(uuid, "a100-spot-12", 7)
	u, node, inc, err := tag.Parse()
	if err != nil || u != uuid || node != "a100-spot-12" || inc != 7 {
		t.Errorf("Parse(%q) = %q %q %d %v", tag, u, node, inc, err)
	}
	if !tag.Of(uuid) || tag.Of("1b5f1c52-7f4c-4d54-9d0e-3a7f6f1c2b11") {
		t.Error("Of tells clusters apart wrongly")
	}
	for _, bad := range []cloudburst.Tag{"", "web-server-1", uuid, uuid + "-", uuid + "-n", uuid + "-n-x", cloudburst.Tag(uuid + "--1")} {
		if _, _, _, err := bad.Parse(); err == nil {
			t.Errorf("Parse(%q) accepted", bad)
		}
	}
}

func TestClass(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"":            nil,
		"no-capacity": fmt.Errorf("create: %w", cloudburst.ErrNoCapacity),
		"rate":        fmt.Errorf("list: %w", cloudburst.RateLimited{After: time.Second}),
		"transient":   errors.New("connection reset"),
		"quota":       cloudburst.ErrQuota,
	} {
		if got := cloudburst.Class(err); got != want {
			t.Errorf("Class(%v) = %q, want %q", err, got, want)
		}
	}
}

func TestOpenNamesTheFault(t *testing.T) {
	t.Parallel()
	cloudburst.Register(cloudburst.Driver{
		Name:    "acme",
		New:     func(cloudburst.Options) (cloudburst.Provider, error) { return nil, nil },
		Options: []cloudburst.Option{{Name: "token", Secret: true, Required: true}},
	})
	for want, values := range map[string]map[string]string{
		`provider p: driver acme needs "token"`:          {},
		`provider p: driver acme has no option "tokken"`: {"tokken": "s3cret"},
	} {
		_, err := cloudburst.Open("acme", cloudburst.Options{Provider: "p", Values: values})
		if err == nil || err.Error() != want {
			t.Errorf("Open(%v): %v, want %s", values, err, want)
		}
	}
}
