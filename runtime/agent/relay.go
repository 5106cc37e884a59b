package agent

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/attempt"
)

const (
	relayFile = "relay.sock"
	// maxRelayBody bounds a request made inside a job: a script with its environment.
	maxRelayBody = 8 << 20
	// relayPatience is how long such a request waits for the link.
	relayPatience = 15 * time.Second
)

func (a *Agent) relaySocket() string { return filepath.Join(a.cfg.StateDir, relayFile) }

// serveRelay takes the REST requests of jobs from their shims. The socket is the
// agent's own: who may open it may vouch for a job.
func (a *Agent) serveRelay(ctx context.Context, g *errgroup.Group) error {
	l, err := attempt.ListenUnix(ctx, a.relaySocket(), 0o600)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: http.HandlerFunc(a.relay), ReadHeaderTimeout: 10 * time.Second}
	g.Go(func() error {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return srv.Close()
	})
	return nil
}

// relay carries one request to the controller and its answer back.
func (a *Agent) relay(w http.ResponseWriter, r *http.Request) {
	fail := func(code int, text string) { http.Error(w, text, code) }
	k, ok := parseKey(r.Header.Get(attempt.HeaderAttempt))
	uid, err1 := strconv.ParseUint(r.Header.Get(attempt.HeaderUID), 10, 32)
	gid, err2 := strconv.ParseUint(r.Header.Get(attempt.HeaderGID), 10, 32)
	if !ok || err1 != nil || err2 != nil || a.find(k) == nil {
		fail(http.StatusForbidden, "the request is of no job on this node")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRelayBody))
	if err != nil {
		fail(http.StatusRequestEntityTooLarge, "request: "+err.Error())
		return
	}
	wait, cancel := context.WithTimeout(r.Context(), relayPatience)
	defer cancel()
	session, err := a.await(wait)
	if err != nil {
		fail(http.StatusBadGateway, err.Error())
		return
	}
	req := &agentapi.RelayRequest{
		Attempt: k.Proto(), Uid: uint32(uid), Gid: uint32(gid),
		Method: r.Method, Path: r.URL.RequestURI(), Body: body,
	}
	for name, values := range r.Header {
		switch name {
		case attempt.HeaderAttempt, attempt.HeaderUID, attempt.HeaderGID:
			continue
		}
		for _, v := range values {
			req.Headers = append(req.Headers, &agentapi.Header{Name: name, Value: v})
		}
	}
	stream, err := session.client.Relay(r.Context(), req)
	if err != nil {
		fail(http.StatusBadGateway, err.Error())
		return
	}
	answer(w, stream)
}

// answer copies the controller's answer, piece by piece as it comes.
func answer(w http.ResponseWriter, stream agentapi.AgentLink_RelayClient) {
	first := true
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			if first {
				code := http.StatusBadGateway
				if status.Code(err) == codes.PermissionDenied {
					code = http.StatusForbidden
				}
				http.Error(w, status.Convert(err).Message(), code)
				return
			}
			panic(http.ErrAbortHandler) // the client must not take half an answer for all
		}
		if first {
			for _, h := range m.GetHeaders() {
				w.Header().Add(h.GetName(), h.GetValue())
			}
			w.WriteHeader(int(m.GetStatus()))
			first = false
		}
		if _, err := w.Write(m.GetBody()); err != nil {
			return // the client is gone
		}
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
}

// commandNames are the links that jobs find on their PATH.
var commandNames = []string{
	"sbatch", "squeue", "scancel", "sinfo", "scontrol", "sacct", "srun", "salloc", "sacctmgr", "sstat",
	"sdiag", "sprio", "sshare", "sreport", "strigger", "sattach", "sbcast", "scrontab", "seff", "sburst",
}

// commandsDir is the folder of Slurm's commands for jobs, empty if there are none.
func (a *Agent) commandsDir() string {
	if a.cfg.SlurmCommands == "" {
		return ""
	}
	return filepath.Join(a.cfg.RunDir, "bin")
}

// installCommands fills that folder: the program, and a link for each of its names.
// Both are put in place by a rename, for jobs may be using them.
func (a *Agent) installCommands() error {
	if a.cfg.SlurmCommands == "" {
		return nil
	}
	dir := a.commandsDir()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	data, err := os.ReadFile(a.cfg.SlurmCommands)
	if err != nil {
		return err
	}
	if err := attempt.WriteBytes(dir, "slurm", data, false); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Join(dir, "slurm"), 0o755); err != nil {
		return err
	}
	for _, name := range commandNames {
		if err := os.Symlink("slurm", filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}
