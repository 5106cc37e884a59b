package shim

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/attempt"
	"github.com/sbatchd/sbatchd/slurmrest/step"
)

type peerKey struct{}

// withPeer puts the kernel's word about who connected into the context.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return ctx
	}
	var cred *unix.Ucred
	var cerr error
	err = raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err != nil || cerr != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, cred)
}

// jobHandler is what the job sees on its socket: steps are started here, all else
// is REST that the agent relays, with who asked vouched for by the kernel. Only the
// job's own user is served.
func (s *shim) jobHandler() http.Handler {
	relay := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "agent"
			// Rewrite drops the job's own X-Forwarded headers, and so must these be.
			cred, _ := r.In.Context().Value(peerKey{}).(*unix.Ucred)
			r.Out.Header.Set(attempt.HeaderAttempt, fmt.Sprintf("%d.%d", s.spec.Job, s.spec.Restart))
			r.Out.Header.Set(attempt.HeaderUID, strconv.FormatUint(uint64(cred.Uid), 10))
			r.Out.Header.Set(attempt.HeaderGID, strconv.FormatUint(uint64(cred.Gid), 10))
		},
		Transport:     &patient{next: &http.Transport{DialContext: s.dialAgent, DisableKeepAlives: true}},
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "the node's agent does not answer: "+err.Error(), http.StatusBadGateway)
		},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+step.Path, s.step)
	mux.Handle("/", relay)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cred, ok := r.Context().Value(peerKey{}).(*unix.Ucred)
		if !ok || (cred.Uid != s.spec.Run.User.UID && cred.Uid != 0) {
			http.Error(w, "this socket is another job's", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// patient asks again when the agent dies over a request that only reads.
type patient struct{ next http.RoundTripper }

func (p *patient) RoundTrip(r *http.Request) (*http.Response, error) {
	deadline := time.Now().Add(agentPatience)
	for {
		resp, err := p.next.RoundTrip(r)
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		if err == nil || !reads || r.Context().Err() != nil || time.Now().After(deadline) {
			return resp, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-r.Context().Done():
		}
	}
}

// agentPatience is how long a request of the job waits for an agent that is being
// restarted.
const agentPatience = 20 * time.Second

func (s *shim) dialAgent(ctx context.Context, _, _ string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, agentPatience)
	defer cancel()
	for {
		c, err := attempt.DialUnix(ctx, s.spec.AgentSocket)
		if err == nil {
			return c, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}
