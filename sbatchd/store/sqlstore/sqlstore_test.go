package sqlstore_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/store"
	"github.com/sbatchd/sbatchd/sbatchd/store/sqlstore"
	"github.com/sbatchd/sbatchd/sbatchd/store/storetest"
)

var quiet = slog.New(slog.DiscardHandler)

func config(path string) sqlstore.Config { return sqlstore.Config{Path: path, Log: quiet} }

func TestConformance(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) func() (store.Journal, error) {
			path := filepath.Join(t.TempDir(), "a dir?#%", "state.db")
			return func() (store.Journal, error) { return sqlstore.Open(t.Context(), config(path)) }
		})
	})
	t.Run("memory", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) func() (store.Journal, error) {
			return func() (store.Journal, error) { return sqlstore.Open(t.Context(), config(":memory:"+t.Name())) }
		})
	})
}

func open(t testing.TB, path string) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), config(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // a test's own look
	return db
}

// definitions lists what a database consists of, spaces made equal.
func definitions(t *testing.T, db *sql.DB) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'goose%' AND name NOT LIKE 'sqlite_%'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		list = append(list, regexp.MustCompile(`\s+`).ReplaceAllString(s, " "))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

func TestMigrationsReachTheSchema(t *testing.T) {
	dir := t.TempDir()
	open(t, filepath.Join(dir, "state.db"))
	wanted := raw(t, filepath.Join(dir, "wanted.db"))
	text, err := os.ReadFile("schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wanted.ExecContext(t.Context(), string(text)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(definitions(t, wanted), definitions(t, raw(t, filepath.Join(dir, "state.db")))); diff != "" {
		t.Errorf("schema.sql and the migrations differ (-schema +migrated):\n%s", diff)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, err := sqlstore.Open(t.Context(), config(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db := raw(t, path)
	if _, err := db.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	backup := path + ".schema-1-before-99"
	if err := os.WriteFile(backup, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = sqlstore.Open(t.Context(), config(path))
	if !errors.Is(err, store.ErrNewerSchema) || !strings.Contains(err.Error(), backup) {
		t.Errorf("open: %v, want ErrNewerSchema that names %s", err, backup)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("the refused state was changed")
	}
}

func TestBackupBeforeMigration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := open(t, path)
	if _, err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), &store.Batch{NextJobID: 77}); err != nil {
		t.Fatal(err)
	}
	name, err := s.Backup(t.Context(), 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Backup(t.Context(), 1, 2); err != nil || again == name {
		t.Errorf("second backup %q %v must not replace the first", again, err)
	}
	if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("backup: %v %v", st, err)
	}
	l, err := open(t, name).Load(t.Context())
	if err != nil || l.NextJobID != 77 {
		t.Errorf("backup holds %+v, %v", l, err)
	}
}

func TestFilesAreClosedToOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "state.db")
	s := open(t, path)
	if _, err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if st, err := e.Info(); err != nil || st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", e.Name(), st.Mode(), err)
		}
	}
}

// TestKilledWriter commits in a child process that is killed at a random
// moment: all that was acknowledged is there.
func TestKilledWriter(t *testing.T) {
	if path := os.Getenv("SQLSTORE_TEST_WRITER"); path != "" {
		writer(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "state.db")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var acknowledged uint32
	for round := range 5 {
		cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestKilledWriter$")
		cmd.Env = append(os.Environ(), "SQLSTORE_TEST_WRITER="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for n := 0; n < 20+13*round; n++ {
			var id uint32
			if _, err := fmt.Fscanln(out, &id); err != nil {
				t.Fatalf("writer stopped by itself: %v", err)
			}
			if id <= acknowledged {
				t.Fatalf("id %d was given out twice", id)
			}
			acknowledged = id
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		var id uint32
		for {
			if _, err := fmt.Fscanln(out, &id); err != nil {
				break // the pipe's end; what came through it was acknowledged
			}
			acknowledged = id
		}
		_ = cmd.Wait() // it was killed
	}
	l, err := open(t, path).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Jobs) < int(acknowledged) || l.NextJobID <= acknowledged {
		t.Errorf("%d jobs, next id %d, but %d were acknowledged", len(l.Jobs), l.NextJobID, acknowledged)
	}
}

func writer(t *testing.T, path string) {
	s, err := sqlstore.Open(t.Context(), config(path))
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for id := max(1, l.NextJobID); ; id++ {
		b := submissions(id, 1)
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		fmt.Println(id)
	}
}

// submissions is what the queue commits for n new jobs.
func submissions(first uint32, n int) *store.Batch {
	b := &store.Batch{NextJobID: first + uint32(n)}
	for i := range uint32(n) {
		id := first + i
		j := &job.Job{
			ID: job.NewID(id), User: "alice", UID: 1000, GID: 1000, Groups: []uint32{1000, 2000}, Account: "lab",
			Partition: "gpu", Priority: 4294901759 - id, Submit: time.Unix(1800000000, int64(id)),
			Spec: &job.Spec{
				Name: "train", Partitions: "gpu", WorkDir: "/home/alice/project", ScriptHash: fmt.Sprintf("%064d", id), EnvHash: fmt.Sprintf("%064d", 7),
				Argv: []string{"/home/alice/project/train.sbatch"}, SubmitHost: "login1", SubmitLine: "sbatch train.sbatch",
				NodesMin: 1, Tasks: 1, CPUsPerTask: 4, MemPerNode: 8192, MemSet: true, TRESPerNode: "gres:gpu:1", TimeLimit: 60, Requeue: true,
				Output: "/home/alice/project/slurm-%j.out",
			},
		}
		data, err := json.Marshal(j)
		if err != nil {
			panic(err) // the literal above
		}
		b.Jobs = append(b.Jobs, j)
		b.Events = append(b.Events, store.Event{Time: j.Submit, Actor: "alice", Kind: "JobSubmitted", Job: id, Data: data})
		b.Blobs = append(b.Blobs, store.Blob{Hash: j.Spec.ScriptHash, Data: bytes.Repeat([]byte("echo hello\n"), 186)},
			store.Blob{Hash: j.Spec.EnvHash, Data: []byte("PATH=/bin\x00")})
	}
	return b
}

func BenchmarkSubmit(b *testing.B) {
	for _, n := range []int{1, 8, 32, 64, 256} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "state.db"))
			if _, err := s.Load(b.Context()); err != nil {
				b.Fatal(err)
			}
			id, start := uint32(1), time.Now()
			for b.Loop() {
				if err := s.Commit(b.Context(), submissions(id, n)); err != nil {
					b.Fatal(err)
				}
				id += uint32(n)
			}
			b.ReportMetric(float64(id-1)/time.Since(start).Seconds(), "jobs/s")
		})
	}
}

func BenchmarkLoad10k(b *testing.B) {
	path := filepath.Join(b.TempDir(), "state.db")
	s := open(b, path)
	if _, err := s.Load(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := s.Commit(b.Context(), submissions(1, 10_000)); err != nil {
		b.Fatal(err)
	}
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		l, err := s.Load(b.Context())
		if err != nil || len(l.Jobs) != 10_000 {
			b.Fatal(len(l.Jobs), err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
		runtime.KeepAlive(l)
	}
}
