package all_test

import (
	"os"
	"testing"

	"github.com/sbatchd/sbatchd/cloudburst"
	_ "github.com/sbatchd/sbatchd/cloudburst/all"
)

// Every folder is a driver of that name which says what its users must know.
func TestEveryProviderIsRegistered(t *testing.T) {
	t.Parallel()
	folders, err := os.ReadDir("../provider")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		d, ok := cloudburst.Lookup(f.Name())
		if !ok {
			t.Errorf("%s is not registered: run make generate", f.Name())
			continue
		}
		if d.Kind == "" || d.Billing <= 0 {
			t.Errorf("%s: kind %q, billing step %s", d.Name, d.Kind, d.Billing)
		}
	}
	if have := cloudburst.Drivers(); len(have) != len(folders) {
		t.Errorf("drivers %v for %d folders", have, len(folders))
	}
}
