package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"

	"github.com/sbatchd/sbatchd/runtime/atomicfile"
)

// dialect is what differs between the databases.
type dialect struct {
	name  string
	goose goose.Dialect
	begin string // starts a transaction that writes
	// ignore ends an INSERT that leaves a row alone that is already there; column
	// is one of the table's.
	ignore func(column string) string
	// replace ends an INSERT: rows that are there get the new values of set.
	replace func(key, set []string) string
	// open connects the writer (one connection) and the readers.
	open func(ctx context.Context, cfg Config) (w, r *sql.DB, err error)
	// backup copies the whole state before a migration and says where to.
	backup func(ctx context.Context, db *sql.DB, cfg Config, from, to int64) (string, error)
	// backups names the copies made before this schema came, newest last.
	backups func(ctx context.Context, db *sql.DB, cfg Config, version int64) []string
	// alone runs a migration while no other controller does.
	alone func(ctx context.Context, db *sql.DB, do func() error) error
	// lost says that a transaction failed with its connection, or was undone by the
	// server: whether it is in can be asked, and it may be tried again.
	lost func(error) bool
}

var dialects = map[string]*dialect{"sqlite": &sqliteDialect, "mysql": &mysqlDialect}

var sqliteDialect = dialect{
	name:   "sqlite",
	goose:  goose.DialectSQLite3,
	begin:  "BEGIN IMMEDIATE",
	ignore: func(string) string { return " ON CONFLICT DO NOTHING" },
	replace: func(key, set []string) string {
		parts := make([]string, len(set))
		for i, c := range set {
			parts[i] = c + "=excluded." + c
		}
		return " ON CONFLICT(" + strings.Join(key, ",") + ") DO UPDATE SET " + strings.Join(parts, ",")
	},
	open:    openSQLite,
	backup:  backupSQLite,
	backups: backupsSQLite,
	alone:   func(_ context.Context, _ *sql.DB, do func() error) error { return do() }, // the state's folder has one owner
	lost:    func(error) bool { return false },
}

// Sizes of the page caches in KiB, and how large the write-ahead log grows, in
// pages, before a commit moves it into the database. With pages of 8 KiB 64
// submissions in one commit take half the time of SQLite's 4 KiB: a job, its
// event and its script are 5 KiB.
const (
	writerCache = 8 << 10
	readerCache = 2 << 10
	pageSize    = 8 << 10
	walPages    = 2000
)

func openSQLite(ctx context.Context, cfg Config) (*sql.DB, *sql.DB, error) {
	// Commits need the data on disk, not the file's times.
	if _, err := sqlite.Fdatasync(true); err != nil {
		cfg.Log.Debug("fdatasync is not available", "err", err)
	}
	file := cfg.Path
	q := url.Values{"_txlock": {"immediate"}}
	pragmas := []string{"busy_timeout(10000)", "temp_store(MEMORY)", "foreign_keys(OFF)"}
	if strings.HasPrefix(file, memory) {
		q.Set("vfs", "memdb")
		file = "/" + strings.TrimPrefix(file, memory)
	} else {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return nil, nil, err
		}
		// SQLite gives its log the mode of the database.
		f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, nil, err
		}
		if err := errors.Join(f.Close(), atomicfile.Sync(filepath.Dir(file))); err != nil {
			return nil, nil, err
		}
		pragmas = append(pragmas, "page_size("+strconv.Itoa(pageSize)+")", "journal_mode(WAL)", "synchronous(FULL)", "journal_size_limit(67108864)",
			"wal_autocheckpoint("+strconv.Itoa(walPages)+")")
	}
	connect := func(cache, conns int) (*sql.DB, error) {
		q["_pragma"] = append(slices.Clone(pragmas), "cache_size(-"+strconv.Itoa(cache)+")")
		db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: file, OmitHost: true, RawQuery: q.Encode()}).String())
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(conns)
		return db, db.PingContext(ctx)
	}
	w, err := connect(writerCache, 1)
	if err != nil {
		return nil, nil, err
	}
	r, err := connect(readerCache, 4)
	if err != nil {
		_ = w.Close() // the first error is the one to tell
		return nil, nil, err
	}
	return w, r, nil
}

func backupSQLite(ctx context.Context, db *sql.DB, cfg Config, from, to int64) (string, error) {
	if strings.HasPrefix(cfg.Path, memory) {
		return "", nil
	}
	name := fmt.Sprintf("%s.schema-%d-before-%d", cfg.Path, from, to)
	for n := 1; ; n++ {
		if _, err := os.Lstat(name); os.IsNotExist(err) {
			break
		}
		name = fmt.Sprintf("%s.schema-%d-before-%d.%d", cfg.Path, from, to, n)
	}
	temp := name + ".partial"
	if err := os.RemoveAll(temp); err != nil {
		return "", err
	}
	if f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
		return "", err
	} else if err := f.Close(); err != nil {
		return "", err
	}
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", temp); err != nil {
		return "", err
	}
	for _, step := range []func() error{
		func() error { return atomicfile.Sync(temp) },
		func() error { return os.Rename(temp, name) },
		func() error { return atomicfile.Sync(filepath.Dir(name)) },
	} {
		if err := step(); err != nil {
			return "", err
		}
	}
	return name, nil
}

func backupsSQLite(_ context.Context, _ *sql.DB, cfg Config, version int64) []string {
	list, err := filepath.Glob(cfg.Path + ".schema-*")
	if err != nil {
		return nil // only a bad pattern: nothing to name
	}
	return slices.DeleteFunc(list, func(name string) bool {
		var from, to int64
		n, _ := fmt.Sscanf(strings.TrimPrefix(name, cfg.Path+".schema-"), "%d-before-%d", &from, &to)
		return n != 2 || from > version || strings.HasSuffix(name, ".partial")
	})
}
