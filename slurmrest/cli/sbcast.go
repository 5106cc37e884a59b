package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/option"
)

func init() {
	register(Command{Name: "sbcast", Args: "SOURCE DEST", About: "copy a file to the job's nodes", Flags: []Flag{
		{Long: "compress", Short: 'C', Arg: option.Optional, Meta: "library", Env: "SBCAST_COMPRESS", Help: "no effect: nothing is sent"},
		{Long: "exclude", Arg: option.Required, Meta: "paths", Env: "SBCAST_EXCLUDE", Help: "libraries not to copy: none are"},
		{Long: "fanout", Short: 'F', Arg: option.Required, Meta: "number", Env: "SBCAST_FANOUT", Help: "no effect: there is one node"},
		{Long: "force", Short: 'f', Env: "SBCAST_FORCE", Help: "replace an existing file"},
		{Long: "jobid", Short: 'j', Arg: option.Required, Meta: "id", Help: "another job: not supported"},
		{Long: "preserve", Short: 'p', Env: "SBCAST_PRESERVE", Help: "keep times and mode"},
		{Long: "send-libs", Arg: option.Optional, Meta: "y|n", Env: "SBCAST_SEND_LIBS", Help: "no effect: libraries are there"},
		{Long: "size", Short: 's', Arg: option.Required, Meta: "bytes", Env: "SBCAST_SIZE", Help: "no effect: nothing is sent"},
		{Long: "timeout", Short: 't', Arg: option.Required, Meta: "seconds", Env: "SBCAST_TIMEOUT", Help: "no effect: nothing is sent"},
		{Long: "verbose", Short: 'v', Help: "say more"},
	}, Run: sbcast})
}

// sbcast copies within the job: a job has one node, and this is it.
func sbcast(_ context.Context, e *Env, in *Input) error {
	if len(in.Args) != 2 {
		e.rawf("Need two file names, have %d names", len(in.Args))
		return fail(`Try "sbcast --help" for more information`)
	}
	job := e.Getenv("SLURM_JOB_ID")
	if _, inside := stepSocket(e); in.Given("jobid") && in.Str("jobid") != job || job != "" && !inside {
		return failed("Requested operation: %s", errno.NotSupported)
	}
	if job == "" {
		return failed("Need a job id to run this command.  Run from within a Slurm job or use the --jobid option.")
	}
	source, dest := e.Path(in.Args[0]), in.Args[1]
	if !filepath.IsAbs(dest) {
		dest = e.Path(dest)
	}
	if err := copyFile(source, dest, in.Given("force"), in.Given("preserve")); err != nil {
		var p *fs.PathError
		if errors.As(err, &p) {
			return failed("Can't open `%s`: %s", p.Path, capital(p.Err.Error()))
		}
		return failed("%v", err)
	}
	return nil
}

// capital is a system error as the C library writes it.
func capital(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}

// copyFile copies a file with its mode; an existing one is replaced only if forced.
func copyFile(source, dest string, force, preserve bool) error {
	from, err := os.Open(source)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	to, err := os.OpenFile(dest, flags, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err == nil && preserve {
		err = errors.Join(os.Chmod(dest, info.Mode().Perm()), os.Chtimes(dest, info.ModTime(), info.ModTime()))
	}
	return err
}
