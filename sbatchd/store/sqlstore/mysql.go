package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
)

// MySQL is where a MySQL or MariaDB server is (AccountingStorageHost and its like).
type MySQL struct {
	Host     string // name, address, or path of a socket
	Port     int
	User     string
	Password string
	Database string
}

// String is the place without the password.
func (m MySQL) String() string {
	_, addr := m.address()
	return fmt.Sprintf("mysql://%s@%s/%s", m.User, addr, m.Database)
}

func (m MySQL) address() (network, addr string) {
	if strings.HasPrefix(m.Host, "/") {
		return "unix", m.Host
	}
	return "tcp", net.JoinHostPort(m.Host, strconv.Itoa(m.Port))
}

// mysqlDialect speaks to MySQL 8, MariaDB 10.6 and newer, Galera and TiDB: plain
// statements, and no isolation but that of one row, the leader's, which every
// transaction writes first.
var mysqlDialect = dialect{
	name:  "mysql",
	goose: goose.DialectMySQL,
	begin: "START TRANSACTION",
	// Not INSERT IGNORE, which takes wrong values too.
	ignore: func(column string) string { return " ON DUPLICATE KEY UPDATE " + column + "=" + column },
	replace: func(_, set []string) string {
		parts := make([]string, len(set))
		for i, c := range set {
			parts[i] = c + "=VALUES(" + c + ")"
		}
		return " ON DUPLICATE KEY UPDATE " + strings.Join(parts, ",")
	},
	open:    openMySQL,
	backup:  backupMySQL,
	backups: backupsMySQL,
	alone:   aloneMySQL,
	lost:    lostMySQL,
}

const (
	mysqlDial  = 10 * time.Second
	mysqlReply = time.Minute // of the writer: a commit that takes longer is lost
	mysqlIdle  = 5 * time.Minute
)

// Numbers of server errors, as the manuals of MySQL and MariaDB list them.
const (
	noSuchDatabase  = 1049
	serverShutdown  = 1053
	lockWaitTimeout = 1205
	deadlock        = 1213 // on Galera also: another node's commit came first
	readOnlyOption  = 1290
	galeraNotReady  = 1047
	wasInterrupted  = 1317
	killed          = 1927
)

// lostMySQL implements dialect.lost.
func lostMySQL(err error) bool {
	if answer, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return slices.Contains([]uint16{serverShutdown, lockWaitTimeout, deadlock, readOnlyOption, galeraNotReady, wasInterrupted, killed}, answer.Number)
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) ||
		errors.Is(err, sql.ErrConnDone) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func openMySQL(ctx context.Context, cfg Config) (w, r *sql.DB, err error) {
	c := mysql.NewConfig()
	c.Net, c.Addr = cfg.MySQL.address()
	c.User, c.Passwd, c.DBName = cfg.MySQL.User, cfg.MySQL.Password, cfg.MySQL.Database
	c.Collation = "utf8mb4_bin"
	c.Params = map[string]string{"sql_mode": "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"}
	c.MaxAllowedPacket = 0 // the server's
	c.Timeout = mysqlDial
	c.RejectReadOnly = true // a server that was leading before: another connection finds the new one
	c.Logger = quietly{cfg.Log}
	if err := findMySQL(ctx, cfg, c); err != nil {
		return nil, nil, err
	}
	connect := func(reply time.Duration, conns int) (*sql.DB, error) {
		c := c.Clone()
		c.ReadTimeout, c.WriteTimeout = reply, reply
		connector, err := mysql.NewConnector(c)
		if err != nil {
			return nil, err
		}
		db := sql.OpenDB(connector)
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(conns)
		return db, nil
	}
	if w, err = connect(mysqlReply, 1); err != nil {
		return nil, nil, err
	}
	if r, err = connect(0, 4); err != nil {
		return nil, nil, errors.Join(err, w.Close())
	}
	r.SetConnMaxIdleTime(mysqlIdle) // before the server or a firewall ends it
	if err := suitable(ctx, r, cfg); err != nil {
		return nil, nil, errors.Join(err, w.Close(), r.Close())
	}
	return w, r, nil
}

// findMySQL waits until the server answers, and makes the database if there is none.
func findMySQL(ctx context.Context, cfg Config, c *mysql.Config) error {
	deadline := time.Now().Add(cfg.Patience)
	for told := false; ; told = true {
		err := askMySQL(ctx, c, "SELECT 1")
		if answer, ok := errors.AsType[*mysql.MySQLError](err); ok && answer.Number == noSuchDatabase {
			server := c.Clone()
			server.DBName = ""
			err = askMySQL(ctx, server, "CREATE DATABASE IF NOT EXISTS `"+strings.ReplaceAll(c.DBName, "`", "``")+"` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
		}
		if err == nil || !lostMySQL(err) || time.Now().After(deadline) || ctx.Err() != nil {
			return err
		}
		if !told {
			cfg.Log.Warn("waiting for the database", "at", cfg.MySQL.String(), "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func askMySQL(ctx context.Context, c *mysql.Config, statement string) error {
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	_, err = db.ExecContext(ctx, statement)
	return errors.Join(err, db.Close())
}

// suitable refuses a database that is somebody else's, and says what makes a commit
// less than durable.
func suitable(ctx context.Context, db *sql.DB, cfg Config) error {
	var others int
	const slurms = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema=DATABASE() AND table_name IN ('table_defs_table', 'acct_coord_table')"
	if err := db.QueryRowContext(ctx, slurms).Scan(&others); err != nil {
		return err
	}
	if others > 0 {
		return fmt.Errorf("database %s is slurmdbd's: give sbatchd one of its own (AccountingStorageLoc)", cfg.MySQL.Database)
	}
	var flush int
	if err := db.QueryRowContext(ctx, "SELECT @@innodb_flush_log_at_trx_commit").Scan(&flush); err == nil && flush != 1 {
		cfg.Log.Warn("the database may lose the last second of commits when its machine dies", "innodb_flush_log_at_trx_commit", flush, "want", 1)
	}
	return nil
}

// aloneMySQL implements dialect.alone: DDL is not in transactions here.
func aloneMySQL(ctx context.Context, db *sql.DB, do func() error) (err error) {
	// The lock lies on a connection; the migration needs the writer's own.
	db.SetMaxOpenConns(2)
	defer db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(CONCAT('sbatchd-schema-', DATABASE()), 50)").Scan(&got); err != nil {
		return err
	}
	if got.Int64 != 1 {
		return errors.New("another controller is migrating the state")
	}
	defer func() {
		_, unlockErr := conn.ExecContext(context.WithoutCancel(ctx), "SELECT RELEASE_LOCK(CONCAT('sbatchd-schema-', DATABASE()))")
		err = errors.Join(err, unlockErr)
	}()
	return do()
}

// before begins the names of copied tables: before2_job is job before schema 2.
const before = "before"

// backupMySQL copies every table beside itself, in the same database.
func backupMySQL(ctx context.Context, db *sql.DB, _ Config, _, to int64) (string, error) {
	tables, err := tablesMySQL(ctx, db)
	if err != nil {
		return "", err
	}
	prefix := before + strconv.FormatInt(to, 10) + "_"
	for _, name := range tables {
		if strings.HasPrefix(name, before) {
			continue
		}
		for _, statement := range []string{
			"DROP TABLE IF EXISTS " + prefix + name, // of a migration that did not come to its end
			"CREATE TABLE " + prefix + name + " LIKE " + name,
			"INSERT INTO " + prefix + name + " SELECT * FROM " + name,
		} {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return "", fmt.Errorf("%s: %w", statement, err)
			}
		}
	}
	return "tables " + prefix + "*", nil
}

func tablesMySQL(ctx context.Context, db *sql.DB) ([]string, error) {
	rows, err := db.QueryContext(ctx, "SELECT table_name FROM information_schema.tables WHERE table_schema=DATABASE() ORDER BY table_name")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		list = append(list, name)
	}
	return list, rows.Err()
}

// backupsMySQL implements dialect.backups.
func backupsMySQL(ctx context.Context, db *sql.DB, _ Config, version int64) []string {
	tables, err := tablesMySQL(ctx, db)
	if err != nil {
		return nil // the refusal is told without them
	}
	var versions []int64
	for _, name := range tables {
		number, table, _ := strings.Cut(strings.TrimPrefix(name, before), "_")
		to, err := strconv.ParseInt(number, 10, 64)
		if err == nil && table == "meta" && to > version {
			versions = append(versions, to)
		}
	}
	slices.Sort(versions)
	out := make([]string, len(versions))
	for i, v := range versions {
		out[i] = fmt.Sprintf("tables %s%d_*", before, v)
	}
	return out
}

// quietly is the driver's log: a connection that broke is told by what used it.
type quietly struct{ log *slog.Logger }

func (q quietly) Print(v ...any) { q.log.Debug("mysql", "says", fmt.Sprint(v...)) }
