package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/tests/rig"
)

// story is the demo while it goes on.
type story struct {
	rig     *rig.Rig
	out     io.Writer
	ctl     *rig.Controller
	user    *rig.User
	job     string
	started time.Time
}

// tell runs the whole demo and returns its last line.
func tell(ctx context.Context, out io.Writer) (string, error) {
	r, err := rig.New("demo")
	if err != nil {
		return "", err
	}
	s := &story{rig: r, out: out, started: time.Now()}
	line, err := s.tell(ctx)
	if err != nil && s.ctl != nil {
		s.say("the controller's log ends:\n%s", s.ctl.LogTail(15))
	}
	// What the controller leaves is looked for when it has stopped in order and
	// before anything else is cleaned up.
	after := context.WithoutCancel(ctx)
	if s.ctl != nil {
		if err != nil {
			err = errors.Join(err, s.ctl.GiveBack(after, 30*time.Second))
		}
		err = errors.Join(err, s.ctl.Stop())
	}
	if left := r.Leaks(after, 10*time.Second); len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("left behind: %s", strings.Join(left, "; ")))
	}
	err = errors.Join(err, r.Close())
	if left := r.Leaks(after, 5*time.Second); err == nil && len(left) > 0 {
		err = fmt.Errorf("left behind after cleaning up: %s", strings.Join(left, "; "))
	}
	return line, err
}

func (s *story) tell(ctx context.Context) (string, error) {
	if err := s.prepare(ctx); err != nil {
		return "", err
	}
	if err := s.submit(ctx); err != nil {
		return "", err
	}
	if err := s.follow(ctx); err != nil {
		return "", err
	}
	return s.judge(ctx)
}

// say prints one line of the story with the seconds since it began.
func (s *story) say(format string, args ...any) {
	fmt.Fprintf(s.out, "[%5.1fs] %s\n", time.Since(s.started).Seconds(), fmt.Sprintf(format, args...))
}

// prepare makes the image, the configuration and the user, and starts the
// controller.
func (s *story) prepare(ctx context.Context) error {
	name := "alice"
	if s.rig.Root {
		s.say("as root: nodes live in their own mount and network namespaces, jobs run in containerd")
	} else {
		s.say("not root: personal mode, nodes are processes and jobs run with Runtime=process, as you")
	}
	var err error
	if s.user, err = s.rig.User(ctx, name); err != nil {
		return err
	}
	image := ""
	if s.rig.Root {
		registry, err := s.rig.Registry(ctx)
		if err != nil {
			return err
		}
		if image, err = s.rig.Image(ctx, registry, "demo/iris"); err != nil {
			return err
		}
		s.say("made an image and pinned it: %s", image)
	}
	cfg := config(s.rig, image)
	if s.ctl, err = s.rig.Controller(ctx, cfg); err != nil {
		return err
	}
	s.say("sbatchd serves on %s", s.ctl.Socket)
	return s.show(ctx, "sinfo")
}

// submit copies the example to the user's folder and runs sbatch there.
func (s *story) submit(ctx context.Context) error {
	for _, name := range []string{"train.sbatch", "softmax.awk", "iris.csv"} {
		if err := s.rig.CopyTo(s.user, rig.Source("contrib", "examples", name), filepath.Join(s.user.Home, name)); err != nil {
			return err
		}
	}
	result, err := s.as(ctx, "sbatch", "--parsable", "train.sbatch")
	if err != nil {
		return err
	}
	s.job = strings.TrimSpace(result)
	s.say("%s typed: sbatch train.sbatch", s.user.Name)
	fmt.Fprintf(s.out, "Submitted batch job %s\n", s.job)
	return nil
}

// follow shows the queue and the nodes each time they change, until the job has
// ended.
func (s *story) follow(ctx context.Context) error {
	before := ""
	return rig.Eventually(ctx, "the job's end", func() (bool, string, error) {
		queue, err := s.as(ctx, "squeue", "--states=all", "-o", "%.6i %.9P %.8j %.8u %.11T %.6D %R", "-j", s.job)
		if err != nil {
			return false, "", err
		}
		nodes, err := s.as(ctx, "sinfo", "-o", "%.9P %.5a %.6D %.10T %N")
		if err != nil {
			return false, "", err
		}
		if now := queue + nodes; now != before {
			before = now
			s.say("squeue; sinfo")
			fmt.Fprint(s.out, indent(queue), indent(nodes))
		}
		state, err := s.field(ctx, "JobState")
		if err != nil {
			return false, "", err
		}
		switch state {
		case "COMPLETED":
			return true, "", nil
		case "PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED", "PREEMPTED":
			return false, state, nil
		}
		return false, "", fmt.Errorf("job %s is %s", s.job, state)
	})
}

// output reads what the job has written so far.
func (s *story) output() string {
	data, err := os.ReadFile(filepath.Join(s.user.Home, "iris-"+s.job+".out"))
	if err != nil {
		return "" // not there yet
	}
	return string(data)
}

// field reads one value of scontrol show job.
func (s *story) field(ctx context.Context, name string) (string, error) {
	text, err := s.as(ctx, "scontrol", "--oneliner", "show", "job", s.job)
	if err != nil {
		return "", err
	}
	for word := range strings.FieldsSeq(text) {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("scontrol show job %s: no %s in %q", s.job, name, text)
}

// as runs a command as the user and returns what it printed; an exit status
// other than 0 is an error.
func (s *story) as(ctx context.Context, argv ...string) (string, error) {
	result, err := s.ctl.As(ctx, rig.Cmd{User: s.user}, argv...)
	if err != nil {
		return "", err
	}
	if result.Code != 0 {
		return result.Stdout, fmt.Errorf("%s: exit %d: %s", strings.Join(argv, " "), result.Code, strings.TrimSpace(result.Stderr))
	}
	return result.Stdout, nil
}

// show runs a command and prints it and its output.
func (s *story) show(ctx context.Context, argv ...string) error {
	text, err := s.as(ctx, argv...)
	if err != nil {
		return err
	}
	s.say("%s", strings.Join(argv, " "))
	fmt.Fprint(s.out, indent(text))
	return nil
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("         " + line)
	}
	return b.String()
}
