package cli_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/sbatchd/store/sqlstore"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/cli"
	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/server"
)

const houseConf = `ClusterName=base
SlurmctldHost=login1
StateSaveLocation=/nowhere
RestListen=unix:/nowhere/s
SlurmUser=root
NodeName=node01 CPUs=64 RealMemory=40000
NodeName=node02 CPUs=8 RealMemory=40000
PartitionName=main Nodes=node01,node02 Default=YES
`

// house is a controller with its REST server, both real, and a shell beside it.
type house struct {
	*session
	queue *queue.Queue
}

// people are the users of the house's host.
type people struct{}

func (people) ByName(_ context.Context, name string) (auth.Account, error) {
	for _, uid := range []uint32{0, 1000} {
		if a, err := (people{}).ByUID(context.Background(), uid); err == nil && a.Name == name {
			return a, nil
		}
	}
	return auth.Account{}, auth.ErrUnknownUser
}

func (people) ByUID(_ context.Context, uid uint32) (auth.Account, error) {
	switch uid {
	case 0:
		return auth.Account{Name: "root"}, nil
	case 1000:
		return auth.Account{Name: "alice", UID: 1000, GID: 1000, Groups: []uint32{1000}}, nil
	}
	return auth.Account{}, auth.ErrUnknownUser
}

// newHouse starts it; commands run as root until uid says another.
func newHouse(t *testing.T) *house {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "slurm.conf")
	if err := os.WriteFile(path, []byte(houseConf), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := partitions.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	journal, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(dir, "state.db"), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	q, err := queue.Open(t.Context(), cfg, journal, time.Now, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := q.Run(ctx); err != nil {
			t.Errorf("owner stopped: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if err := journal.Close(); err != nil {
			t.Error(err)
		}
	})
	keys, err := auth.LoadKeys(auth.Parameters{})
	if err != nil {
		t.Fatal(err)
	}
	rest := server.New(server.Config{
		Controller: q, Auth: auth.New(auth.Config{Keys: keys, Users: people{}, Now: time.Now}),
		Now: time.Now, Log: log, Hostname: "login1", Release: "0.1",
		Reload: func() (*partitions.Config, error) { return cfg, nil },
	})
	h := &house{queue: q}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := auth.Credential{UID: uint32(h.uid), GID: uint32(h.uid)}
		rest.Handler().ServeHTTP(w, r.WithContext(auth.WithPeer(r.Context(), who)))
	}))
	t.Cleanup(srv.Close)
	h.session = &session{T: t, dir: t.TempDir(), addr: srv.Listener.Addr().String()}
	return h
}

// say runs a command line and returns what a terminal shows of it.
func (h *house) say(stdin string, args ...string) (screen string, status int) {
	h.Helper()
	var out bytes.Buffer
	e := &cli.Env{
		Prog: args[0], Args: args[1:], Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &out,
		Dir: h.dir, Host: "login1", UID: h.uid, Local: time.UTC, Now: time.Now,
		ReadFile: os.ReadFile, Create: func(name string) (io.WriteCloser, error) { return os.Create(name) },
		Users: users{},
		Connect: func(context.Context) (*client.Client, error) {
			return client.New(client.Endpoint{Network: "tcp", Address: h.addr}, client.WithPatience(0)), nil
		},
	}
	status = cli.Main(h.Context(), e)
	return out.String(), status
}

// must runs a command that has to succeed.
func (h *house) must(args ...string) string {
	h.Helper()
	out, status := h.say("", args...)
	if status != 0 {
		h.Fatalf("%s: exit status %d\n%s", strings.Join(args, " "), status, out)
	}
	return out
}

// people adds the account physics with alice, as in the recorded cluster.
func (h *house) people() {
	h.Helper()
	h.must("sacctmgr", "-i", "add", "account", "physics", "description=physics", "organization=lab")
	h.must("sacctmgr", "-i", "add", "user", "alice", "account=physics")
}
