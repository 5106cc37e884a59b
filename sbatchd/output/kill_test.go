package output_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sbatchd/sbatchd/runtime/asuser"
	"github.com/sbatchd/sbatchd/sbatchd/output"
)

// order is what the test, in the agent's place, asks of the controller process.
type order struct {
	Op     string
	Key    output.Key
	Offset int64
	Data   []byte
	Target output.Target
}

type answer struct {
	Ack output.Ack
	Err string
}

// controllerMain is a controller that can be killed: a spool and a copier
// served on standard input and output.
func controllerMain(dir string) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "controller:", err)
		return 1
	}
	s, err := output.NewSpool(dir, 0, quiet)
	if err != nil {
		return fail(err)
	}
	c, err := output.NewCopier(s, output.Reexec("as-helper"), func(output.Key, string) {}, quiet)
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var g errgroup.Group
	g.Go(func() error { return s.Run(ctx) })
	g.Go(func() error { return c.Run(ctx) })
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		if err := in.Decode(&o); err != nil {
			return fail(err)
		}
		var a answer
		var err error
		switch o.Op {
		case "append":
			a.Ack, err = s.Append(ctx, o.Key, o.Offset, o.Data)
		case "prepare":
			err = c.Prepare(ctx, o.Key, o.Target)
		case "finish":
			err = c.Finish(ctx, o.Key.Attempt)
		}
		if err != nil {
			a.Err = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return fail(err)
		}
	}
}

// controller is a controller process as the agent sees it: it may die at any
// moment and comes back.
type controller struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

func (c *controller) start() {
	exe, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	c.cmd = exec.Command(exe, "as-controller", c.dir)
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	c.out = json.NewDecoder(bufio.NewReader(out))
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *controller) kill() {
	_ = c.cmd.Process.Kill() // it may be dead already
	_ = c.cmd.Wait()         // killed
}

// do asks until there is an answer, starting the controller again when it died.
func (c *controller) do(o order) answer {
	for {
		var a answer
		err := json.NewEncoder(c.in).Encode(o)
		if err == nil {
			err = c.out.Decode(&a)
		}
		if err == nil {
			return a
		}
		c.kill()
		c.start()
	}
}

// children lists the helpers of a process, whichever of its threads made them.
func children(pid int) []int {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	var list []int
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // the thread is gone
		}
		for f := range strings.FieldsSeq(string(data)) {
			if n, err := strconv.Atoi(f); err == nil {
				list = append(list, n)
			}
		}
	}
	return list
}

// TestNoLineIsLostOrDoubled kills the controller and the helper at random
// moments while four streams are printed, two of them to one file, and a fifth
// comes from a second attempt.
func TestNoLineIsLostOrDoubled(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	dir := t.TempDir()
	c := &controller{t: t, dir: filepath.Join(dir, "spool")}
	c.start()
	defer c.kill()

	both, alone, other := filepath.Join(dir, "both"), filepath.Join(dir, "alone"), filepath.Join(dir, "other")
	for _, f := range []string{both, alone, other} {
		if err := os.WriteFile(f, []byte("what was there before is emptied once\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	target := func(path string, appendTo bool) output.Target {
		return output.Target{Path: path, Owner: asuser.Self(), Append: appendTo, Umask: 0o022}
	}
	const lines, kills = 200, 40
	var killed [2]int // controllers, helpers
	rounds := []map[output.Key]output.Target{
		{
			key(1, 0, "out"): target(both, false), key(1, 0, "err"): target(both, false),
			key(2, 0, "out"): target(alone, false), key(3, 0, "out"): target(other, false),
		},
		{key(3, 1, "out"): target(other, true)},
	}
	for _, targets := range rounds {
		deaths, last := [2]int{}, time.Now()
		for k, tg := range targets {
			if a := c.do(order{Op: "prepare", Key: k, Target: tg}); a.Err != "" {
				t.Fatal(a.Err)
			}
		}
		sent, acked := map[output.Key][]byte{}, map[output.Key]int64{}
		for n := range lines {
			for k := range targets {
				sent[k] = fmt.Appendf(sent[k], "%s %d\n", k, n)
				// Now and then the agent sends from further back.
				from := max(0, acked[k]-int64(rng.IntN(40)))
				a := c.do(order{Op: "append", Key: k, Offset: from, Data: sent[k][from:]})
				if a.Err != "" {
					t.Fatal(a.Err)
				}
				acked[k] = a.Ack.Size
			}
			if deaths[0]+deaths[1] < kills && time.Since(last) > time.Duration(rng.IntN(15))*time.Millisecond {
				last = time.Now()
				if helpers := children(c.cmd.Process.Pid); deaths[0] > deaths[1] && len(helpers) > 0 {
					deaths[1]++
					if p, err := os.FindProcess(helpers[0]); err == nil {
						_ = p.Kill() // it may be gone
					}
				} else {
					deaths[0]++
					c.kill()
					c.start()
				}
			}
		}
		for k := range targets {
			for acked[k] < int64(len(sent[k])) {
				acked[k] = c.do(order{Op: "append", Key: k, Offset: acked[k], Data: sent[k][acked[k]:]}).Ack.Size
			}
			if a := c.do(order{Op: "finish", Key: k}); a.Err != "" {
				t.Fatal(a.Err)
			}
		}
		killed[0], killed[1] = killed[0]+deaths[0], killed[1]+deaths[1]
	}
	if killed[0] < 20 || killed[1] < 20 {
		t.Errorf("only %d controllers and %d helpers were killed", killed[0], killed[1])
	}
	checkMerged(t, both, "1.0.out", lines)
	checkMerged(t, both, "1.0.err", lines)
	wantLines(t, alone, "2.0.out", lines)
	wantLines(t, other, "3.0.out", lines, "3.1.out", lines)
	if data, err := os.ReadFile(both); err != nil || strings.Count(string(data), "\n") != 2*lines {
		t.Errorf("%d lines in the file of two streams, want %d", strings.Count(string(data), "\n"), 2*lines)
	}
}

// wantLines wants a file to be the numbered lines of streams, one after the
// other, and nothing else.
func wantLines(t *testing.T, path string, parts ...any) {
	t.Helper()
	var want strings.Builder
	for i := 0; i < len(parts); i += 2 {
		for n := range parts[i+1].(int) {
			fmt.Fprintf(&want, "%s %d\n", parts[i], n)
		}
	}
	wantFile(t, path, want.String())
}
