package partitions_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/partitions"
)

func TestSecrets(t *testing.T) {
	t.Setenv("TEST_SECRET", "Access_Key = a\n# secret=no\nsecret=b=c\n")
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("key=from file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for pass, want := range map[string]string{"": "", "open sesame": "open sesame", "file:" + file: "key=from file", "env:TEST_SECRET": os.Getenv("TEST_SECRET")} {
		if got, err := (partitions.AccountingStorage{Pass: pass}).Password(); err != nil || got != want {
			t.Errorf("%q: %q, %v", pass, got, err)
		}
	}
	for from, want := range map[string]map[string]string{
		"": {}, file: {"key": "from file"}, "env:TEST_SECRET": {"access_key": "a", "secret": "b=c"},
	} {
		got, err := (&partitions.Provider{CredentialFile: from}).Credential()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v %s", from, err, diff)
		}
	}
	for _, missing := range []string{"env:TEST_NO_SUCH", filepath.Join(t.TempDir(), "none")} {
		if _, err := (&partitions.Provider{CredentialFile: missing}).Credential(); err == nil {
			t.Errorf("%s: no error", missing)
		}
	}
}
