package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Command is a command line for a site.
type Command struct {
	User  string
	Dir   string // as the user sees it
	Env   []string
	Line  string // for sh
	Stdin string
}

// Answer is what a command or a request came to.
type Answer struct {
	Stdout, Stderr string
	Code           int    // exit status, or HTTP status
	Type           string // of a REST answer's body
}

// Site is a cluster that sessions run on.
type Site interface {
	Run(ctx context.Context, c Command) (Answer, error)
	REST(ctx context.Context, user, method, path, body string) (Answer, error)
	// Host is where a path of the site lies on this machine.
	Host(path string) string
}

// Users are those that sessions run as, with their uids.
var Users = map[string]int{"root": 0, "alice": 1001, "bob": 1002}

// run is one run of a session.
type run struct {
	Session
	site Site
	dir  string   // the work directory, as users see it
	jobs []string // ids in the order of their appearance
	out  strings.Builder
}

// stepTimeout is how long a step may take. Waits have a limit of their own, below it.
const (
	stepTimeout = 40 * time.Second
	waitTimeout = 25 * time.Second
)

// Run runs the session and returns its transcript, comparable between sites. The
// error says that the site failed; what a command says is in the transcript.
// The session's jobs are cancelled at its end.
func (s Session) Run(ctx context.Context, site Site) (string, error) {
	r := &run{Session: s, site: site, dir: "/srv/home/alice/" + s.Tag()}
	if err := r.prepare(); err != nil {
		return "", fmt.Errorf("%s: %w", s.Name, err)
	}
	defer r.clean(ctx)
	for _, step := range s.Steps {
		if err := r.step(ctx, step); err != nil {
			return r.out.String(), fmt.Errorf("%s: %s: %w", s.Name, step.Prompt, err)
		}
	}
	return r.out.String(), nil
}

// prepare makes the work directory, alice's and open to read.
func (r *run) prepare() error {
	dir := r.site.Host(r.dir)
	return errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755), os.Chown(dir, Users["alice"], Users["alice"]))
}

// clean cancels what is left and removes the work directory.
func (r *run) clean(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	defer cancel()
	if len(r.jobs) > 0 {
		// Jobs that ended are no fault, and what else goes wrong the next session sees.
		r.site.Run(ctx, Command{User: "root", Dir: "/", Line: "scancel -f -Q " + strings.Join(r.jobs, " ")}) //nolint:errcheck // see above
	}
	os.RemoveAll(r.site.Host(r.dir)) //nolint:errcheck // it goes with the site
}

func (r *run) step(whole context.Context, s Step) error {
	ctx, cancel := context.WithTimeoutCause(whole, stepTimeout, fmt.Errorf("it did not end in %s", stepTimeout))
	defer cancel()
	var a Answer
	var err error
	switch s.Kind {
	case Shell:
		a, err = r.site.Run(ctx, Command{User: s.User, Dir: r.dir, Env: r.env(), Line: s.Text, Stdin: s.Body})
		if ctx.Err() != nil {
			a, err = Answer{Stderr: context.Cause(ctx).Error(), Code: -1}, nil
		}
	case REST:
		method, path, _ := strings.Cut(s.Text, " ")
		a, err = r.site.REST(ctx, s.User, method, r.fill(path), r.fill(s.Body))
		if ctx.Err() != nil {
			a, err = Answer{Stderr: context.Cause(ctx).Error(), Code: -1}, nil
		}
	case WriteFile:
		err = r.write(r.fill(s.Text), r.fill(s.Body))
	case ShowFile:
		a, err = r.show(ctx, r.fill(s.Text))
	case Wait:
		a, err = r.wait(ctx, r.fill(s.Text))
	}
	if err := errors.Join(whole.Err(), err); err != nil {
		return err
	}
	r.tell(s, a)
	return nil
}

// env is what a command sees of the session.
func (r *run) env() []string {
	env := []string{"S=" + r.Tag()}
	for i, id := range r.jobs {
		env = append(env, fmt.Sprintf("J%d=%s", i+1, id))
	}
	return env
}

var variable = regexp.MustCompile(`\$(S|J\d+)\b`)

// fill replaces $S and $J1 where no shell does.
func (r *run) fill(text string) string {
	return variable.ReplaceAllStringFunc(text, func(v string) string {
		if v == "$S" {
			return r.Tag()
		}
		var n int
		if _, err := fmt.Sscanf(v, "$J%d", &n); err != nil || n < 1 || n > len(r.jobs) {
			return "0"
		}
		return r.jobs[n-1]
	})
}

func (r *run) write(name, text string) error {
	path := r.site.Host(filepath.Join(r.dir, name))
	return errors.Join(os.WriteFile(path, []byte(text), 0o755), os.Chown(path, Users["alice"], Users["alice"]))
}

// show reads a file, which a job may still be writing: once it is there, and then
// until it stays as it is.
func (r *run) show(ctx context.Context, name string) (Answer, error) {
	path := r.site.Host(filepath.Join(r.dir, name))
	last := ""
	for deadline := time.Now().Add(5 * time.Second); ; {
		text, err := os.ReadFile(path)
		if err == nil && len(text) > 0 && string(text) == last {
			return Answer{Stdout: last}, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			if err != nil {
				return Answer{Stderr: "no such file", Code: 1}, nil //nolint:nilerr // that is the answer
			}
			return Answer{Stdout: string(text)}, nil
		}
		last = string(text)
		time.Sleep(100 * time.Millisecond)
	}
}

var jobState = regexp.MustCompile(`(?m)\bJobState=(\S+)`)

// final are the states that accounting hears of.
const final = " BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY TIMEOUT "

// wait asks for a job's state until it is one of those wanted; when that is an end,
// until accounting says so too.
func (r *run) wait(ctx context.Context, text string) (Answer, error) {
	id, states, _ := strings.Cut(text, " ")
	deadline := time.Now().Add(waitTimeout)
	seen := ""
	for time.Now().Before(deadline) {
		a, err := r.site.Run(ctx, Command{User: "root", Dir: "/", Line: "scontrol show job " + id})
		if err != nil {
			return a, err
		}
		seen = ""
		if m := jobState.FindStringSubmatch(a.Stdout); m != nil {
			seen = m[1]
		}
		if seen != "" && strings.Contains(","+states+",", ","+seen+",") {
			if !strings.Contains(final, " "+seen+" ") {
				return Answer{}, nil
			}
			a, err = r.site.Run(ctx, Command{User: "root", Dir: "/", Line: "sacct -n -X -P -o State -j " + id})
			if err != nil || strings.HasPrefix(a.Stdout, seen) {
				return Answer{}, err
			}
			seen += ", and accounting says " + a.Stdout
		}
		time.Sleep(100 * time.Millisecond)
	}
	return Answer{Stderr: "the job is still " + seen, Code: 1}, nil
}
