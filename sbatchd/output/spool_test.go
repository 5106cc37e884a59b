package output_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/output"
)

func content(t *testing.T, s *output.Spool, k output.Key) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := s.Copy(&b, k, 0); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAppend(t *testing.T) {
	r := start(t, t.TempDir(), 0)
	k := key(1, 0, "out")
	for _, c := range []struct {
		name   string
		offset int64
		data   string
		want   int64
	}{
		{"first", 0, "hello\n", 6},
		{"again", 0, "hello\n", 6},
		{"gap", 100, "x", 6},
		{"overlap", 3, "lo\nworld\n", 12},
		{"inside", 2, "ll", 12},
		{"nothing", 12, "", 12},
		{"next", 12, "!", 13},
	} {
		if got := r.append(t, k, c.offset, c.data); got.Size != c.want || got.Capped {
			t.Errorf("%s: %+v, want %d", c.name, got, c.want)
		}
	}
	if got := content(t, r.Spool, k); got != "hello\nworld\n!" {
		t.Errorf("spool holds %q", got)
	}
	if _, err := r.Append(t.Context(), key(1, 0, "../x"), 0, nil); err == nil {
		t.Error("a bad stream name was accepted")
	}
	if _, err := r.Append(t.Context(), k, -1, nil); err == nil {
		t.Error("a bad offset was accepted")
	}
}

func TestSizeIsTheAcknowledgement(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir, 0)
	r.append(t, key(1, 0, "out"), 0, "12345")
	r.stop()
	r = start(t, dir, 0)
	if a, err := r.Size(key(1, 0, "out")); err != nil || a.Size != 5 {
		t.Errorf("size %+v %v, want 5", a, err)
	}
	if a := r.append(t, key(1, 0, "out"), 3, "456"); a.Size != 6 {
		t.Errorf("size %d, want 6", a.Size)
	}
	if got := content(t, r.Spool, key(1, 0, "out")); got != "123456" {
		t.Errorf("spool holds %q", got)
	}
}

func TestOlderAttemptsAreRefused(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir, 0)
	r.append(t, key(1, 0, "out"), 0, "a")
	r.Begin(job.Attempt{Job: 1, Restart: 1})
	if _, err := r.Append(t.Context(), key(1, 0, "out"), 1, []byte("b")); !errors.Is(err, output.ErrOld) {
		t.Errorf("append to attempt 0: %v, want ErrOld", err)
	}
	r.append(t, key(1, 1, "out"), 0, "c")
	r.append(t, key(2, 0, "out"), 0, "other job")
	r.stop()
	r = start(t, dir, 0)
	if _, err := r.Append(t.Context(), key(1, 0, "out"), 1, []byte("b")); !errors.Is(err, output.ErrOld) {
		t.Errorf("append to attempt 0 after a restart: %v, want ErrOld", err)
	}
}

func TestLimit(t *testing.T) {
	dir := t.TempDir()
	k := key(1, 0, "out")
	r := start(t, dir, 10)
	r.append(t, k, 0, "12345678")
	if a := r.append(t, k, 8, "90abc"); !a.Capped || a.Size != 13 {
		t.Errorf("at the limit: %+v, want capped at 13", a)
	}
	if a := r.append(t, k, 13, "more"); !a.Capped || a.Size != 17 {
		t.Errorf("after the limit: %+v, want capped at 17", a)
	}
	want := content(t, r.Spool, k)
	if !strings.HasPrefix(want, "1234567890\n") || !strings.Contains(want, "JobLogLimit") || strings.Contains(want, "abc") {
		t.Errorf("spool holds %q", want)
	}
	r.stop()
	// A crash may cut the notice off.
	if err := os.Truncate(filepath.Join(dir, k.String()), 14); err != nil {
		t.Fatal(err)
	}
	r = start(t, dir, 1000)
	if a, err := r.Size(k); err != nil || !a.Capped {
		t.Errorf("after a restart: %+v %v, want capped", a, err)
	}
	if a := r.append(t, k, 10, "abcmore and more"); !a.Capped || a.Size != 26 {
		t.Errorf("after a restart: %+v, want capped at 26", a)
	}
	if got := content(t, r.Spool, k); !strings.HasPrefix(got, "1234567890\n") || strings.Count(got, "JobLogLimit") != 1 {
		t.Errorf("spool holds %q", got)
	}
}

func TestManyStreams(t *testing.T) {
	r := start(t, t.TempDir(), 0)
	const streams, pieces = 40, 25
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			k := key(uint32(i+1), 0, "out")
			var off int64
			for n := range pieces {
				data := fmt.Sprintf("job %d line %d\n", i, n)
				a, err := r.Append(t.Context(), k, off, []byte(data))
				if err != nil || a.Size != off+int64(len(data)) {
					t.Errorf("%+v %v", a, err)
					return
				}
				off = a.Size
			}
		})
	}
	wg.Wait()
	for i := range streams {
		if got := strings.Count(content(t, r.Spool, key(uint32(i+1), 0, "out")), "\n"); got != pieces {
			t.Errorf("stream %d has %d lines, want %d", i, got, pieces)
		}
	}
}

func TestFollow(t *testing.T) {
	r := start(t, t.TempDir(), 0)
	r.append(t, key(1, 0, "out"), 0, "first\n")
	var mu sync.Mutex
	restart, more := uint32(0), true
	live := func() (uint32, bool) {
		mu.Lock()
		defer mu.Unlock()
		return restart, more
	}
	var out lines
	done := make(chan error, 1)
	go func() { done <- r.Follow(t.Context(), &out, 1, "out", live) }()
	out.wait(t, "first\n")
	r.append(t, key(1, 0, "out"), 6, "second\n")
	out.wait(t, "first\nsecond\n")
	mu.Lock()
	restart = 2 // attempt 1 never printed
	mu.Unlock()
	r.append(t, key(1, 2, "out"), 0, "third\n")
	out.wait(t, "first\nsecond\nthird\n")
	mu.Lock()
	more = false
	mu.Unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
	var all bytes.Buffer
	if err := r.Follow(t.Context(), &all, 1, "out", nil); err != nil || all.String() != "first\nsecond\nthird\n" {
		t.Errorf("%q %v", all.String(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Follow(ctx, &all, 1, "out", func() (uint32, bool) { return 2, true }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled follow: %v", err)
	}
}

func TestKeysAndRemove(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir, 0)
	for _, k := range []output.Key{key(1, 1, "out"), key(1, 1, "err"), key(12, 0, "out")} {
		r.append(t, k, 0, "x")
	}
	got, err := r.Keys(1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]output.Key{key(1, 1, "err"), key(1, 1, "out")}, got); diff != "" {
		t.Error(diff)
	}
	if err := r.Remove(1); err != nil {
		t.Fatal(err)
	}
	if list, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(list) != 1 {
		t.Errorf("left: %v %v, want the other job's", list, err)
	}
}

// lines is a buffer that can be waited for.
type lines struct {
	mu   sync.Mutex
	text string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(b)
	return len(b), nil
}

func (l *lines) wait(t *testing.T, want string) {
	t.Helper()
	waitFor(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.text == want
	}, func() string { return fmt.Sprintf("output is %q, want %q", l.text, want) })
}

func waitFor(t *testing.T, ok func() bool, what func() string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal(what())
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, err := output.NewSpool(b.TempDir(), 0, quiet)
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			go s.Run(ctx) // ends with the benchmark
			line := []byte(strings.Repeat("x", 99) + "\n")
			var wg sync.WaitGroup
			each := b.N/n + 1
			b.ResetTimer()
			for i := range n {
				wg.Go(func() {
					var off int64
					for range each {
						a, err := s.Append(ctx, key(uint32(i+1), 0, "out"), off, line)
						if err != nil {
							b.Error(err)
							return
						}
						off = a.Size
					}
				})
			}
			wg.Wait()
		})
	}
}
