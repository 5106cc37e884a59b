//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/store/storetest"
	"github.com/sbatchd/sbatchd/tests/rig"
)

// TestMySQL keeps the state in a real MariaDB that is killed while jobs come and go:
// no command fails, no job is lost, and a new controller finds all of it.
func TestMySQL(t *testing.T) {
	db := storetest.StartMariaDB(t)
	h := open(t, site{runtime: "process", workdir: "shared", slurm: fmt.Sprintf(
		"AccountingStorageType=accounting_storage/mysql\nAccountingStorageHost=127.0.0.1\nAccountingStoragePort=%d\nAccountingStorageUser=%s\nAccountingStorageLoc=site\n",
		db.Port, db.User)})
	long := h.sbatch(h.alice, "-o", "long.out", "--wrap", "sleep 3; echo done")
	h.started(long, time.Minute)
	db.Kill()
	done := make(chan string)
	go func() { // is answered once it is on disk
		result, err := h.ctl.As(t.Context(), rig.Cmd{User: h.alice}, "sbatch", "--parsable", "-o", "while.out", "--wrap", "echo while away")
		if err != nil || result.Code != 0 {
			t.Errorf("sbatch while the database is away: %v %v", result, err)
		}
		done <- strings.TrimSpace(result.Stdout)
	}()
	select {
	case id := <-done:
		t.Errorf("job %s was taken with no database", id)
	case <-time.After(time.Second):
	}
	db.Start()
	while := <-done
	h.ended(long, "COMPLETED", time.Minute)
	h.ended(while, "COMPLETED", time.Minute)
	h.ctl.Kill()
	if err := h.ctl.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := h.must(h.alice, "sacct", "-X", "-n", "-P", "-o", "JobID,State", "-j", long+","+while)
	if want := long + "|COMPLETED\n" + while + "|COMPLETED\n"; got != want {
		t.Errorf("after a restart: %q, want %q", got, want)
	}
	if next := h.sbatch(h.alice, "--hold", "--wrap", "true"); next <= while {
		t.Errorf("job id %s after %s", next, while)
	}
}
