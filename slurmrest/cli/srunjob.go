package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// srunJob is srun where there is no job yet: it submits one whose script is the same
// srun, shows what it prints, passes signals on and ends with its status. The
// output comes by two files in the work directory, which work wherever a batch
// job's do.
func srunJob(ctx context.Context, e *Env, v *option.Values, args, argv []string) error {
	for _, name := range []string{"pty", "multi-prog"} {
		if v.Given(name) {
			return withExitError(e, failed("Unable to allocate resources: --%s: %s", name, errno.NotSupported))
		}
	}
	box, err := newMailbox(e)
	if err != nil {
		return failed("Unable to create a file for the output: %v", err)
	}
	defer box.remove()
	if err := box.fill(e.Stdin); err != nil {
		return failed("Could not read standard input: %v", err)
	}
	body := "#!/bin/sh\nexec srun"
	for _, a := range args {
		body += " '" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	a, err := allocate(ctx, e, v, script{body: []byte(body + "\n"), name: filepath.Base(argv[0])}, func(j *wire.JobDescMsg) {
		j.StandardOutput, j.StandardError, j.StandardInput = box.name("out"), box.name("err"), box.name("in")
		no := false
		j.Requeue = &no
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := e.Signals(ctx)
	if j, err := a.begun(ctx, signals, ""); err != nil {
		return err
	} else if j != nil && j.Nodes == "" {
		return withExitError(e, failed("Unable to allocate resources: %s", strings.ToLower(format.ShownState(j.JobState).Name)))
	}
	return a.follow(ctx, box, signals)
}

// follow shows the output until the job is over and returns its status.
func (a *allocation) follow(ctx context.Context, box *mailbox, signals <-chan int) error {
	for {
		j, err := a.job(ctx)
		if err != nil && ctx.Err() == nil && !errors.Is(err, errno.InvalidJobID) {
			a.e.errorf("job %d: %s", a.id, text(err)) // it may come back: the job goes on
		}
		if err := box.show(a.e); err != nil {
			a.cancel(ctx)
			return exit(1) // nobody reads on
		}
		if (err == nil || errors.Is(err, errno.InvalidJobID)) && over(j) {
			return a.status(j)
		}
		select {
		case n, ok := <-signals:
			if !ok {
				signals = nil
			} else if word := signalWord(n); word == "" {
				a.cancel(ctx)
			} else {
				a.signal(ctx, word)
			}
		default:
		}
		if err := a.e.Sleep(ctx, lookEvery); err != nil {
			a.cancel(context.WithoutCancel(ctx))
			return exit(1)
		}
	}
}

// signalWord is how a signal is passed on; those that end a program cancel the job.
func signalWord(n int) string {
	return map[int]string{10: "USR1", 12: "USR2", 14: "ALRM", 18: "CONT"}[n]
}

// status is the end of an srun's job as srun's own.
func (a *allocation) status(j *wire.JobInfo) error {
	if j == nil {
		return nil
	}
	state := format.BaseState(j.JobState).Name
	code := int(j.ExitCode.ReturnCode.Or(0))
	if n := j.ExitCode.Signal.ID.Or(0); n != 0 {
		code = 128 + int(n)
	}
	if state != "COMPLETED" && state != "FAILED" {
		a.e.infof("Force Terminated job %d", a.id)
		code = max(code, 1)
	}
	if code == 0 {
		return nil
	}
	return exit(code & 0xff)
}

// mailbox is the files through which a job and its srun talk.
type mailbox struct {
	base  string
	shown map[string]int64 // bytes of each that were shown
}

// newMailbox makes the files, in the work directory or else where temporary files
// go.
func newMailbox(e *Env) (*mailbox, error) {
	var err error
	for _, dir := range []string{e.Dir, os.TempDir()} {
		b := &mailbox{base: filepath.Join(dir, ".srun-"+rand.Text()[:12]), shown: map[string]int64{}}
		for _, suffix := range []string{"in", "out", "err"} {
			var f *os.File
			if f, err = os.OpenFile(b.name(suffix), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
				break
			}
			if err = f.Close(); err != nil {
				break
			}
		}
		if err == nil {
			return b, nil
		}
		b.remove()
	}
	return nil, err
}

func (b *mailbox) name(suffix string) string { return b.base + "." + suffix }

func (b *mailbox) remove() {
	for _, suffix := range []string{"in", "out", "err"} {
		os.Remove(b.name(suffix)) //nolint:errcheck // it may never have been made
	}
}

// maxStdin bounds what a job started by srun is given to read, in bytes.
const maxStdin = 64 << 20

// fill takes all of standard input, unless it is a terminal: a job that is on its
// way can't be typed to.
func (b *mailbox) fill(stdin io.Reader) error {
	if f, ok := stdin.(*os.File); ok {
		if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice != 0 {
			return nil //nolint:nilerr // a closed input is an empty one
		}
	}
	f, err := os.OpenFile(b.name("in"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.LimitReader(stdin, maxStdin))
	return errors.Join(err, f.Close())
}

// show passes on what was written since the last time.
func (b *mailbox) show(e *Env) error {
	for suffix, to := range map[string]io.Writer{"out": e.Stdout, "err": e.Stderr} {
		f, err := os.Open(b.name(suffix))
		if err != nil {
			continue // not there yet: a copied output appears with its first bytes
		}
		_, err = f.Seek(b.shown[suffix], io.SeekStart)
		var n int64
		if err == nil {
			n, err = io.Copy(to, f)
		}
		b.shown[suffix] += n
		f.Close() //nolint:errcheck // only read
		if err != nil {
			return err
		}
	}
	return e.flush()
}
