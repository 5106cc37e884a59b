package sqlstore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/sbatchd/store"
	"github.com/sbatchd/sbatchd/sbatchd/store/sqlstore"
	"github.com/sbatchd/sbatchd/sbatchd/store/storetest"
)

var databases atomic.Int32

// onMySQL is a new database of a server.
func onMySQL(m *storetest.MariaDB) sqlstore.Config {
	return sqlstore.Config{Driver: "mysql", Log: quiet, MySQL: sqlstore.MySQL{
		Host: m.Socket, User: m.User, Database: fmt.Sprintf("site-%d", databases.Add(1)),
	}}
}

func openMySQL(t *testing.T, cfg sqlstore.Config) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !strings.Contains(err.Error(), "bad connection") {
			t.Error(err)
		}
	})
	return s
}

func rawMySQL(t *testing.T, cfg sqlstore.Config) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", fmt.Sprintf("%s@unix(%s)/%s?multiStatements=true", cfg.MySQL.User, cfg.MySQL.Host, cfg.MySQL.Database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // a test's own look
	return db
}

func TestMySQL(t *testing.T) {
	m := storetest.StartMariaDB(t)
	t.Run("Conformance", func(t *testing.T) {
		storetest.Run(t, func(*testing.T) func() (store.Journal, error) {
			cfg := onMySQL(m)
			return func() (store.Journal, error) { return sqlstore.Open(t.Context(), cfg) }
		})
	})
	t.Run("TCP", func(t *testing.T) {
		cfg := onMySQL(m)
		cfg.MySQL.Host, cfg.MySQL.Port = "127.0.0.1", m.Port
		openMySQL(t, cfg)
	})
	t.Run("Schema", func(t *testing.T) { mysqlSchema(t, onMySQL(m)) })
	t.Run("Backup", func(t *testing.T) { mysqlBackup(t, onMySQL(m)) })
	t.Run("Foreign", func(t *testing.T) { mysqlForeign(t, onMySQL(m)) })
	t.Run("AnyText", func(t *testing.T) { mysqlAnyText(t, onMySQL(m)) })
	t.Run("TwoOpen", func(t *testing.T) { mysqlTwoOpen(t, onMySQL(m)) })
	t.Run("Restarts", func(t *testing.T) { mysqlRestarts(t, m) })
	t.Run("Cut", func(t *testing.T) { mysqlCut(t, onMySQL(m)) })
}

// mysqlColumns lists the columns and keys of a database, without their types.
func mysqlColumns(t *testing.T, db *sql.DB) []string {
	t.Helper()
	return texts(t, db, `SELECT CONCAT(table_name, '.', column_name) FROM information_schema.columns
		WHERE table_schema=DATABASE() AND table_name NOT LIKE 'goose%'
		UNION SELECT CONCAT(table_name, ' ', IF(index_name='PRIMARY', 'KEY', index_name), ' ', GROUP_CONCAT(column_name ORDER BY seq_in_index))
		FROM information_schema.statistics WHERE table_schema=DATABASE() AND table_name NOT LIKE 'goose%' GROUP BY table_name, index_name ORDER BY 1`)
}

func texts(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
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
		list = append(list, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// mysqlSchema: schema.sql, written for both databases, is what these migrations reach.
func mysqlSchema(t *testing.T, cfg sqlstore.Config) {
	openMySQL(t, cfg)
	db := rawMySQL(t, cfg)
	got := mysqlColumns(t, db)
	text, err := os.ReadFile("schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	cfg.MySQL.Database += "-wanted"
	other := rawMySQL(t, sqlstore.Config{MySQL: sqlstore.MySQL{Host: cfg.MySQL.Host, User: cfg.MySQL.User}})
	other.SetMaxOpenConns(1) // USE is a connection's
	for _, q := range []string{"CREATE DATABASE `" + cfg.MySQL.Database + "`", "USE `" + cfg.MySQL.Database + "`;" + string(text)} {
		if _, err := other.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(mysqlColumns(t, rawMySQL(t, cfg)), got); diff != "" {
		t.Errorf("schema.sql and the migrations differ (-schema +migrated):\n%s", diff)
	}
	loose := texts(t, db, `SELECT CONCAT(table_name, '.', column_name, ' ', collation_name) FROM information_schema.columns
		WHERE table_schema=DATABASE() AND table_name NOT LIKE 'goose%' AND collation_name<>'utf8mb4_bin'`)
	if len(loose) > 0 {
		t.Errorf("columns that take two texts for one: %v", loose)
	}
}

// mysqlBackup: every table is copied before a migration, and a newer schema is
// refused with the name of the copy.
func mysqlBackup(t *testing.T, cfg sqlstore.Config) {
	s := openMySQL(t, cfg)
	if _, err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), submissions(1, 3)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second one as after a migration that did not end
		if where, err := s.Backup(t.Context(), 2, 99); err != nil || where != "tables before99_*" {
			t.Fatalf("backup: %q, %v", where, err)
		}
	}
	db := rawMySQL(t, cfg)
	for table, n := range map[string]int{"job": 3, "event": 3, "leader": 1} {
		var got int
		if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM before99_"+table).Scan(&got); err != nil || got != n {
			t.Errorf("before99_%s: %d rows, %v", table, got, err)
		}
	}
	if _, err := db.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)"); err != nil {
		t.Fatal(err)
	}
	_, err := sqlstore.Open(t.Context(), cfg)
	if !errors.Is(err, store.ErrNewerSchema) || !strings.Contains(err.Error(), "tables before99_*") {
		t.Errorf("a newer schema: %v", err)
	}
}

func mysqlForeign(t *testing.T, cfg sqlstore.Config) {
	openMySQL(t, cfg)
	if _, err := rawMySQL(t, cfg).ExecContext(t.Context(), "CREATE TABLE table_defs_table (x INT)"); err != nil {
		t.Fatal(err)
	}
	_, err := sqlstore.Open(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "is slurmdbd's: give sbatchd one of its own (AccountingStorageLoc)") {
		t.Errorf("slurmdbd's database: %v", err)
	}
}

// mysqlAnyText: no name a user can give makes a commit fail.
func mysqlAnyText(t *testing.T, cfg sqlstore.Config) {
	s := openMySQL(t, cfg)
	if _, err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id, name := range []string{"\xff\xfe", "naïve 😀", strings.Repeat("ü", 3000), "a\x00b", "", "x "} {
		b := submissions(uint32(id+1), 1)
		b.Jobs[0].Spec.Name, b.Jobs[0].Account = name, name
		if err := s.Commit(t.Context(), b); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	got, err := s.Jobs(t.Context(), store.JobQuery{Names: []string{"naïve 😀"}})
	if err != nil || len(got) != 1 {
		t.Errorf("found %d, %v", len(got), err)
	}
}

// mysqlTwoOpen: two controllers may come up at once; the later one leads.
func mysqlTwoOpen(t *testing.T, cfg sqlstore.Config) {
	stores := make(chan *sqlstore.Store, 2)
	for range 2 {
		go func() {
			s, err := sqlstore.Open(t.Context(), cfg)
			if err != nil {
				t.Error(err)
			}
			stores <- s
		}()
	}
	first, second := <-stores, <-stores
	if first == nil || second == nil {
		t.FailNow()
	}
	t.Cleanup(func() { _, _ = first.Close(), second.Close() })
	for _, s := range []*sqlstore.Store{first, second} {
		if _, err := s.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Commit(t.Context(), submissions(1, 1)); !errors.Is(err, store.ErrNotLeader) {
		t.Errorf("the earlier one commits: %v", err)
	}
	if err := second.Commit(t.Context(), submissions(1, 1)); err != nil {
		t.Error(err)
	}
}

// mysqlRestarts kills the server over and over under commits: none fails, each is
// in once, in order.
func mysqlRestarts(t *testing.T, m *storetest.MariaDB) {
	cfg := onMySQL(m)
	s := openMySQL(t, cfg)
	if _, err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { stopped <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := s.Commit(t.Context(), submissions(uint32(n+1), 1)); err != nil {
				t.Errorf("commit %d: %v", n+1, err)
				return
			}
			n++
		}
	}()
	for n := range 4 {
		time.Sleep(time.Duration(100+70*n) * time.Millisecond)
		m.Kill()
		m.Start()
	}
	time.Sleep(200 * time.Millisecond)
	close(stop)
	n := <-stopped
	wholeStory(t, s, n)
}

// wholeStory checks that n commits are in, each once.
func wholeStory(t *testing.T, s *sqlstore.Store, n int) {
	t.Helper()
	events, err := s.Events(t.Context(), 0, n+10)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != n || n == 0 {
		t.Fatalf("%d commits and %d events", n, len(events))
	}
	for i, e := range events {
		if e.Seq != uint64(i+1) || e.Job != uint32(i+1) {
			t.Fatalf("event %d is %d of job %d", i+1, e.Seq, e.Job)
		}
	}
}

// mysqlCut ends the writer's connection at the server, as an admin or a time limit does.
func mysqlCut(t *testing.T, cfg sqlstore.Config) {
	s := openMySQL(t, cfg)
	if _, err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := rawMySQL(t, cfg)
	for n := range 5 {
		if err := s.Commit(t.Context(), submissions(uint32(n+1), 1)); err != nil {
			t.Fatal(err)
		}
		for _, id := range texts(t, db, "SELECT id FROM information_schema.processlist WHERE db=DATABASE() AND id<>CONNECTION_ID()") {
			if _, err := db.ExecContext(t.Context(), "KILL "+id); err != nil {
				t.Fatal(err)
			}
		}
	}
	wholeStory(t, s, 5)
}
