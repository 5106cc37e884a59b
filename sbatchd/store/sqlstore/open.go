package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/pressly/goose/v3"

	"github.com/sbatchd/sbatchd/sbatchd/store"
)

//go:embed migrations
var migrations embed.FS

// memory begins the Path of a database that lives in this process only:
// ":memory:name". All who open the same name see the same data.
const memory = ":memory:"

// Config says where the state is.
type Config struct {
	// Driver is the AccountingStorageType's word: sqlite or mysql.
	Driver string
	// Path is SQLite's database file, or ":memory:name" for tests.
	Path string
	// MySQL says where the server is.
	MySQL MySQL
	// Patience is how long a server that is away is waited for, at the start and
	// by a commit; 0 is a minute.
	Patience time.Duration
	// Holder names this controller in the leader row; empty makes one up.
	Holder string
	// ClusterUUID is given to a new cluster; empty makes one up.
	ClusterUUID string
	Log         *slog.Logger
}

// Store is the durable state. Commit is for one caller at a time; the rest may
// be called by any number.
type Store struct {
	cfg     Config
	d       *dialect
	w, r    *sql.DB
	conn    *sql.Conn // the writer's, which holds the prepared statements
	inserts map[insertKey]*sql.Stmt
	lead    *sql.Stmt

	mu      sync.Mutex // one commit at a time
	epoch   uint64     // 0: not loaded yet
	turn    int64      // leader.seq as this controller left it
	nextSeq uint64     // of events
	// known holds hashes of content that is stored, so that the script of an
	// array sweep is sent once. Bounded, it only saves time.
	known map[string]struct{}
}

var _ store.Journal = (*Store)(nil)

// Open connects, and brings an older schema up to date after a backup. State of
// a newer sbatchd is refused with store.ErrNewerSchema and the way back.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Driver == "" {
		cfg.Driver = "sqlite"
	}
	d, ok := dialects[cfg.Driver]
	if !ok {
		return nil, fmt.Errorf("open state: unknown database %q", cfg.Driver)
	}
	if cfg.Holder == "" {
		cfg.Holder = uuid.NewString()
	}
	if cfg.Patience == 0 {
		cfg.Patience = time.Minute
	}
	w, r, err := d.open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open state %s: %w", cfg.place(), err)
	}
	s := &Store{cfg: cfg, d: d, w: w, r: r, inserts: map[insertKey]*sql.Stmt{}, known: map[string]struct{}{}}
	err = d.alone(ctx, w, func() error { return s.migrate(ctx) })
	if err == nil {
		err = s.connect(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open state %s: %w", cfg.place(), err), s.Close())
	}
	return s, nil
}

// place is where the state is, for people.
func (c *Config) place() string {
	if c.Driver == "mysql" {
		return c.MySQL.String()
	}
	return c.Path
}

// connect takes the writer's connection and prepares its first statement.
func (s *Store) connect(ctx context.Context) (err error) {
	if s.conn, err = s.w.Conn(ctx); err != nil {
		return err
	}
	s.lead, err = s.conn.PrepareContext(ctx, "UPDATE leader SET seq=seq+1 WHERE id=1 AND holder=? AND epoch=? AND seq=?")
	return err
}

// disconnect gives the writer's connection up.
func (s *Store) disconnect() error {
	var errs []error
	for _, st := range s.inserts {
		errs = append(errs, st.Close())
	}
	clear(s.inserts)
	if s.lead != nil {
		errs = append(errs, s.lead.Close())
	}
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	s.lead, s.conn = nil, nil
	return errors.Join(errs...)
}

func (s *Store) migrate(ctx context.Context) error {
	dir, err := fs.Sub(migrations, "migrations/"+s.d.name)
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(s.d.goose, s.w, dir, goose.WithSlog(s.cfg.Log), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	switch {
	case have > want:
		back := "install the sbatchd that wrote it"
		if list := s.d.backups(ctx, s.w, s.cfg, want); len(list) > 0 {
			back += ", or go back to the copy made before the change: " + list[len(list)-1]
		}
		return fmt.Errorf("schema %d, this sbatchd knows up to %d: %w; %s", have, want, store.ErrNewerSchema, back)
	case have == want:
		return nil
	case have > 0:
		where, err := s.d.backup(ctx, s.w, s.cfg, have, want)
		if err != nil {
			return fmt.Errorf("back up before the migration: %w", err)
		}
		s.cfg.Log.Info("state backed up before a migration", "file", where, "from", have, "to", want)
	}
	_, err = p.Up(ctx)
	return err
}

// Close ends all connections. A commit in progress comes first.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch = 0
	if err := errors.Join(s.disconnect(), s.r.Close(), s.w.Close()); err != nil {
		return fmt.Errorf("close state: %w", err)
	}
	return nil
}

// questions is "?,?,?".
func questions(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }
