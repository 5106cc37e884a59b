package step_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/slurmrest/step"
)

// serve runs a step server that echoes stdin until EOF, and exits 7.
func serve(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc(step.Path, func(w http.ResponseWriter, r *http.Request) {
		c, req, err := step.Accept(w, r)
		if err != nil {
			return
		}
		defer c.Close()
		if err := c.WriteJSON(step.Started, step.AllTasks, step.Info{Job: 12, Step: 3, Pids: make([]int, req.NTasks)}); err != nil {
			t.Error(err)
		}
		for {
			f, err := c.Read()
			if err != nil || f.Type == step.StdinEOF {
				break
			}
			if err := c.Write(step.Stdout, 1, f.Data); err != nil {
				t.Error(err)
			}
		}
		if err := c.WriteJSON(step.Exit, 0, step.Status{Code: 7}); err != nil {
			t.Error(err)
		}
		if err := c.Write(step.Done, step.AllTasks, nil); err != nil {
			t.Error(err)
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestStepStream(t *testing.T) {
	t.Parallel()
	conn, err := net.Dial("tcp", serve(t))
	if err != nil {
		t.Fatal(err)
	}
	c, err := step.Dial(t.Context(), conn, step.Request{Argv: []string{"cat"}, NTasks: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sent := bytes.Repeat([]byte("0123456789"), 20000) // more than one frame
	go func() {
		if err := errors.Join(c.Write(step.Stdin, 0, sent), c.Write(step.StdinEOF, 0, nil)); err != nil {
			t.Error(err)
		}
	}()
	var got []byte
	var types []step.Type
	for {
		f, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch f.Type {
		case step.Stdout:
			got = append(got, f.Data...)
			continue
		case step.Exit:
			var s step.Status
			if err := json.Unmarshal(f.Data, &s); err != nil || s.Code != 7 {
				t.Errorf("exit %s: %v", f.Data, err)
			}
		default:
		}
		types = append(types, f.Type)
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("got %d bytes back of %d", len(got), len(sent))
	}
	if d := cmp.Diff([]step.Type{step.Started, step.Exit, step.Done}, types); d != "" {
		t.Error(d)
	}
}

func TestStepRefused(t *testing.T) {
	t.Parallel()
	conn, err := net.Dial("tcp", serve(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = step.Dial(t.Context(), conn, step.Request{})
	if err == nil || !strings.Contains(err.Error(), "without a program") {
		t.Errorf("got %v", err)
	}
}
