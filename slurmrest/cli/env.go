package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/format"
)

// Env is the world of one command. System fills it from the process; tests make
// their own.
type Env struct {
	Prog   string   // name the command was called by
	Args   []string // arguments after it
	Stdin  io.Reader
	Stdout io.Writer // buffered by Main
	Stderr io.Writer

	Environ []string
	Dir     string // current directory
	Host    string // host name
	UID     int
	SID     int               // session of the calling shell
	Umask   int               // of this process
	Nice    int               // scheduling priority of this process
	Limits  map[string]uint64 // soft resource limits; see option.Shell
	Local   *time.Location

	Now      func() time.Time
	Sleep    func(ctx context.Context, d time.Duration) error
	ReadFile func(name string) ([]byte, error)
	Create   func(name string) (io.WriteCloser, error)
	Users    Users
	Signals  func(ctx context.Context) <-chan int // interrupts that reach the command, by number
	// Exec runs a program on this terminal and returns its exit status.
	Exec func(ctx context.Context, argv, environ []string) (int, error)

	// Connect finds the controller; the client is made once.
	Connect func(ctx context.Context) (*client.Client, error)

	client *client.Client
	flush  func() error
}

// Users resolves names and numbers of this host's users and groups.
type Users interface {
	ID(name string) (int64, bool)
	Name(id int64) string // the number itself where there is no name
	GroupID(name string) (int64, bool)
	Groups() []string // names of the caller's groups
}

// Getenv returns a variable's value, empty if it is not set.
func (e *Env) Getenv(name string) string {
	v, _ := e.LookupEnv(name)
	return v
}

// LookupEnv returns a variable's value and whether it is set.
func (e *Env) LookupEnv(name string) (string, bool) {
	for i := len(e.Environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(e.Environ[i], name); ok && strings.HasPrefix(v, "=") {
			return v[1:], true
		}
	}
	return "", false
}

// Client returns the client of the controller, found at the first call.
func (e *Env) Client(ctx context.Context) (*client.Client, error) {
	if e.client == nil {
		c, err := e.Connect(ctx)
		if err != nil {
			return nil, err
		}
		e.client = c
	}
	return e.client, nil
}

// Path makes a file name absolute.
func (e *Env) Path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(e.Dir, name)
}

// printf writes to standard output; Main reports a failed write.
func (e *Env) printf(text string, a ...any) { fmt.Fprintf(e.Stdout, text, a...) }

// errorf writes a line of the log's error level.
func (e *Env) errorf(text string, a ...any) {
	fmt.Fprintf(e.Stderr, e.Prog+": error: "+text+"\n", a...)
}

// infof writes a line of the log's info level.
func (e *Env) infof(text string, a ...any) { fmt.Fprintf(e.Stderr, e.Prog+": "+text+"\n", a...) }

// rawf writes a line without the program's name.
func (e *Env) rawf(text string, a ...any) { fmt.Fprintf(e.Stderr, text+"\n", a...) }

// format returns what columns depend on.
func (e *Env) format() *format.Context {
	c := &format.Context{Now: e.Now(), Location: e.Local, TimeFormat: e.Getenv("SLURM_TIME_FORMAT"), BitmapLen: 64}
	if n := e.Getenv("SLURM_BITSTR_LEN"); n != "" {
		c.BitmapLen = 0
		for _, d := range n {
			if d < '0' || d > '9' || c.BitmapLen > 1<<20 {
				c.BitmapLen = 64
				break
			}
			c.BitmapLen = c.BitmapLen*10 + int(d-'0')
		}
	}
	return c
}
