// Package exec is a provider that is somebody's own program: a site adds its own
// cloud in any language, with JSON in and JSON out.
//
//	ProviderName=ours Type=exec Program=/etc/sbatchd/our-cloud CredentialFile=/etc/sbatchd/credentials/ours
//
// The program is started for each call, with the call's name as its only argument,
// one JSON object on standard input and one expected on standard output:
//
//	offers  {"want": Want}                -> {"offers": [Offer, ...]}
//	create  {"request": Request}          -> {"instance": Instance}
//	list    {}                            -> {"instances": [Instance, ...]}
//	delete  {"id": "..."}                 -> {}
//
// Each input also has "provider" (ProviderName), "cluster" (the UUID) and
// "credential" (the name=value lines of CredentialFile). The types' fields are in
// wire.go, README.md beside contrib/exec's example explains them. What goes wrong is
//
//	{"error": {"class": "no-capacity", "message": "none left in eu-1", "after": 30}}
//
// with one of the classes of [cloudburst.Class] and any exit status; a program that
// fails without it has its last line of standard error as the message. Calls may
// run at once. The program is killed, with all it started, when a call takes too
// long: create may then have made the machine all the same, and list tells.
//
// A program need not know whether it made a machine before: the driver asks list
// before each create, one create of a tag at a time. That holds within one
// controller, and one has leadership.
package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
)

func init() {
	cloudburst.Register(cloudburst.Driver{
		Name: "exec", New: open, Kind: cloudburst.VM, Billing: time.Second, SelfDestruct: true, AnyOption: true,
		Options: []cloudburst.Option{
			{Name: "program", Required: true, Help: "path of the program"},
			{Name: "timeout", Help: "seconds a call may take, 300 if not set"},
		},
	})
}

const (
	callTimeout = 5 * time.Minute
	// maxAnswer is how much a program may print: a list of ten thousand machines
	// is a few MiB.
	maxAnswer = 64 << 20
	maxErrors = 64 << 10
)

type provider struct {
	o       cloudburst.Options
	program string
	secrets map[string]string
	limit   time.Duration

	mu    sync.Mutex
	turns map[cloudburst.Tag]chan struct{} // who may create this tag now
}

func open(o cloudburst.Options) (cloudburst.Provider, error) {
	p := &provider{o: o, program: o.Values["program"], secrets: map[string]string{}, limit: callTimeout, turns: map[cloudburst.Tag]chan struct{}{}}
	info, err := os.Stat(p.program)
	switch {
	case err != nil:
		return nil, fmt.Errorf("program: %w", err)
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return nil, fmt.Errorf("program %s is not executable", p.program)
	case info.Mode().Perm()&0o002 != 0:
		return nil, fmt.Errorf("program %s may be changed by everybody (mode %04o)", p.program, info.Mode().Perm())
	}
	for name, value := range o.Values {
		switch name {
		case "program":
		case "timeout":
			seconds, err := time.ParseDuration(value + "s")
			if err != nil || seconds <= 0 {
				return nil, fmt.Errorf("timeout %q is not a number of seconds", value)
			}
			p.limit = seconds
		default:
			p.secrets[name] = value
		}
	}
	return p, nil
}

// Offers implements cloudburst.Provider.
func (p *provider) Offers(ctx context.Context, w cloudburst.Want) ([]cloudburst.Offer, error) {
	var a answer
	want := wantOf(w)
	if err := p.call(ctx, "offers", question{Want: &want}, &a); err != nil {
		return nil, err
	}
	var out []cloudburst.Offer
	for _, o := range a.Offers {
		offer, err := o.offer(p.o.Provider)
		if err != nil {
			return nil, fmt.Errorf("exec: offers: %w: %w", err, cloudburst.ErrBadRequest)
		}
		if w.Fits(offer) == nil {
			out = append(out, offer)
		}
	}
	return out, nil
}

// Create implements cloudburst.Provider.
func (p *provider) Create(ctx context.Context, r cloudburst.Request) (cloudburst.Instance, error) {
	done, err := p.turn(ctx, r.Tag)
	if err != nil {
		return cloudburst.Instance{}, err
	}
	defer done()
	list, err := p.List(ctx)
	if err != nil {
		return cloudburst.Instance{}, err
	}
	for _, i := range list {
		if i.Tag == r.Tag && i.Live() {
			return i, nil
		}
	}
	var a answer
	request := p.requestOf(r)
	if err := p.call(ctx, "create", question{Request: &request}, &a); err != nil {
		return cloudburst.Instance{}, err
	}
	if a.Instance == nil {
		return cloudburst.Instance{}, fmt.Errorf("exec: create: the answer has no instance: %w", cloudburst.ErrTransient)
	}
	i, err := a.Instance.instance()
	if err == nil && i.Tag != r.Tag {
		err = fmt.Errorf("instance %s has tag %q, not %q", i.ID, i.Tag, r.Tag)
	}
	if err != nil {
		return cloudburst.Instance{}, fmt.Errorf("exec: create: %w: %w", err, cloudburst.ErrTransient)
	}
	return i, nil
}

// turn waits until no other create of the tag runs.
func (p *provider) turn(ctx context.Context, tag cloudburst.Tag) (done func(), err error) {
	for {
		p.mu.Lock()
		busy, taken := p.turns[tag]
		if !taken {
			mine := make(chan struct{})
			p.turns[tag] = mine
			p.mu.Unlock()
			return func() {
				p.mu.Lock()
				delete(p.turns, tag)
				p.mu.Unlock()
				close(mine)
			}, nil
		}
		p.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// List implements cloudburst.Provider. Machines that carry no tag of ours are left
// out: they are somebody else's.
func (p *provider) List(ctx context.Context) ([]cloudburst.Instance, error) {
	var a answer
	if err := p.call(ctx, "list", question{}, &a); err != nil {
		return nil, err
	}
	if a.Instances == nil {
		// A program that printed nothing must not make us believe that all is gone.
		return nil, fmt.Errorf("exec: list: the answer has no instances: %w", cloudburst.ErrTransient)
	}
	var out []cloudburst.Instance
	for _, w := range *a.Instances {
		i, err := w.instance()
		if errors.Is(err, errNotOurs) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("exec: list: %w: %w", err, cloudburst.ErrTransient)
		}
		out = append(out, i)
	}
	return out, nil
}

// Delete implements cloudburst.Provider.
func (p *provider) Delete(ctx context.Context, id cloudburst.InstanceID) error {
	err := p.call(ctx, "delete", question{ID: string(id)}, new(answer))
	if errors.Is(err, cloudburst.ErrNotFound) {
		return nil
	}
	return err
}

// call runs the program once.
func (p *provider) call(ctx context.Context, verb string, q question, a *answer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.Provider, q.Cluster, q.Credential = p.o.Provider, p.o.ClusterUUID, p.secrets
	input, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("exec: %s: %w", verb, err)
	}
	limited, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	cmd := exec.CommandContext(limited, p.program, verb)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LANG=C.UTF-8"}
	cmd.Stdin = bytes.NewReader(input)
	out, said := &clipped{limit: maxAnswer}, &clipped{limit: maxErrors}
	cmd.Stdout, cmd.Stderr = out, said
	// A group of its own, so that what it started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	began := time.Now()
	runErr := cmd.Run()
	p.o.Log.LogAttrs(ctx, slog.LevelDebug, "program ran", slog.String("verb", verb), slog.Duration("took", time.Since(began)), slog.Any("err", runErr))
	if ctx.Err() != nil {
		return fmt.Errorf("exec: %s: %w", verb, ctx.Err())
	}
	decodeErr := json.Unmarshal(out.Bytes(), a)
	switch {
	case decodeErr == nil && a.Error != nil:
		return p.failed(verb, a.Error.err(), a.Error.Message, q)
	case limited.Err() != nil:
		return p.failed(verb, cloudburst.ErrTransient, fmt.Sprintf("no answer within %s", p.limit), q)
	case runErr != nil:
		return p.failed(verb, unknown(verb), fmt.Sprintf("%v: %s", runErr, lastLine(said.String())), q)
	case out.cut:
		return p.failed(verb, unknown(verb), fmt.Sprintf("the answer is longer than %d MiB", maxAnswer>>20), q)
	case decodeErr != nil:
		return p.failed(verb, cloudburst.ErrTransient, "the answer is not JSON: "+decodeErr.Error(), q)
	}
	return nil
}

// unknown is the class of an error without one.
func unknown(verb string) error {
	if verb == "create" {
		return cloudburst.ErrBadRequest
	}
	return cloudburst.ErrTransient
}

// failed makes an error that carries no secret, whatever the program printed.
func (p *provider) failed(verb string, class error, message string, q question) error {
	hidden := []string{}
	for _, s := range p.secrets {
		hidden = append(hidden, s)
	}
	if q.Request != nil {
		hidden = append(hidden, q.Request.Agent.Token)
	}
	for _, s := range hidden {
		if s != "" {
			message = strings.ReplaceAll(message, s, "***")
		}
	}
	return fmt.Errorf("exec: %s: %s: %w", verb, message, class)
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// clipped keeps the beginning of what is written.
type clipped struct {
	bytes.Buffer
	limit int
	cut   bool
}

func (c *clipped) Write(b []byte) (int, error) {
	n := len(b)
	if left := c.limit - c.Len(); len(b) > left {
		b, c.cut = b[:max(left, 0)], true
	}
	_, _ = c.Buffer.Write(b) // never fails
	return n, nil
}
