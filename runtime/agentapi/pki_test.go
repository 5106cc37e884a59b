package agentapi_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
)

const cluster = "0b7c2c4e-3f0a-4d55-9a53-1f7f0f2d8f11"

// hub answers Join and, to those with a certificate, Renew.
type hub struct {
	agentapi.UnimplementedAgentLinkServer
	authority *agentapi.Authority
	bound     map[agentapi.Identity]string
}

func (h *hub) Join(ctx context.Context, r *agentapi.JoinRequest) (*agentapi.JoinReply, error) {
	reply, err := h.authority.Join(ctx, cluster, r, time.Now(), func(_ context.Context, id agentapi.Identity, key string) (string, error) {
		if h.bound[id] == "" {
			h.bound[id] = key
		}
		return h.bound[id], nil
	})
	if errors.Is(err, agentapi.ErrToken) {
		return nil, status.Error(codes.PermissionDenied, err.Error())
	}
	return reply, err
}

func (h *hub) Renew(ctx context.Context, r *agentapi.RenewRequest) (*agentapi.JoinReply, error) {
	id, err := agentapi.PeerIdentity(ctx)
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	return h.authority.Renew(id, r, time.Now())
}

func serveHub(t *testing.T) (*agentapi.Authority, agentapi.Dialer) {
	t.Helper()
	a, err := agentapi.OpenAuthority(filepath.Join(t.TempDir(), "ca"), cluster, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s := agentapi.NewServer(a.ServerTLS(time.Now))
	agentapi.RegisterAgentLinkServer(s, &hub{authority: a, bound: map[agentapi.Identity]string{}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l) // ends with Stop
	t.Cleanup(s.Stop)
	dial, err := agentapi.DialAddress("tcp:" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return a, dial
}

func join(t *testing.T, dial agentapi.Dialer, token, path string) error {
	t.Helper()
	tok, err := agentapi.ParseToken(token)
	if err != nil {
		return err
	}
	c, err := agentapi.LoadCredential(path)
	if err != nil && c.Key == nil {
		if c.Key, err = agentapi.NewKey(); err != nil {
			t.Fatal(err)
		}
		if err := agentapi.SaveKey(path, c.Key); err != nil {
			t.Fatal(err)
		}
	}
	csr, err := agentapi.NewRequest(c.Key, tok.Node)
	if err != nil {
		t.Fatal(err)
	}
	cc, err := agentapi.Connect(t.Context(), dial, agentapi.JoinTLS(tok.CASHA256, time.Now))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	r, err := agentapi.NewAgentLinkClient(cc).Join(t.Context(), &agentapi.JoinRequest{Token: token, Csr: csr})
	if err != nil {
		return err
	}
	return agentapi.SaveReply(path, r)
}

func TestJoinAndRenew(t *testing.T) {
	t.Parallel()
	a, dial := serveHub(t)
	token := a.NewToken("gpu-1", "tag-1", time.Now().Add(time.Hour))
	path := filepath.Join(t.TempDir(), "node")
	for range 2 { // the same key may retry
		if err := join(t, dial, token, path); err != nil {
			t.Fatal(err)
		}
	}
	c, err := agentapi.LoadCredential(path)
	if err != nil {
		t.Fatal(err)
	}
	id, err := agentapi.IdentityOf(c.Cert)
	if d := cmp.Diff(agentapi.Identity{Cluster: cluster, Node: "gpu-1", Tag: "tag-1"}, id); err != nil || d != "" {
		t.Errorf("identity: %v %s", err, d)
	}
	if left := time.Until(agentapi.RenewAt(c.Cert)); left < 4*24*time.Hour || left > 5*24*time.Hour {
		t.Errorf("renewal in %v, want two thirds of a week", left)
	}
	if before := time.Since(c.Cert.NotBefore); before < 23*time.Hour {
		t.Errorf("backdated %v", before)
	}

	cc, err := agentapi.Connect(t.Context(), dial, c.TLS(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	csr, err := agentapi.NewRequest(c.Key, "ignored")
	if err != nil {
		t.Fatal(err)
	}
	r, err := agentapi.NewAgentLinkClient(cc).Renew(t.Context(), &agentapi.RenewRequest{Csr: csr})
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := x509.ParseCertificate(r.GetCertificate())
	if err != nil || fresh.Subject.CommonName != "gpu-1" {
		t.Errorf("renewed for %q, %v", fresh.Subject.CommonName, err)
	}
}

func TestJoinRefused(t *testing.T) {
	t.Parallel()
	a, dial := serveHub(t)
	other, err := agentapi.OpenAuthority(filepath.Join(t.TempDir(), "ca"), cluster, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	used := a.NewToken("gpu-2", "tag-2", time.Now().Add(time.Hour))
	if err := join(t, dial, used, filepath.Join(t.TempDir(), "first")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, token, want string }{
		{"expired", a.NewToken("gpu-1", "tag", time.Now().Add(-time.Minute)), "it ended at"},
		{"another key", used, "another key has used it"},
		{"other cluster's CA", other.NewToken("gpu-1", "tag", time.Now().Add(time.Hour)), "not the one of the join token"},
		{"no token", "hello", "not a token"},
	} {
		err := join(t, dial, tc.token, filepath.Join(t.TempDir(), "node"))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v", tc.name, err)
		}
	}
}

func TestRenewNeedsCertificate(t *testing.T) {
	t.Parallel()
	a, dial := serveHub(t)
	cc, err := agentapi.Connect(t.Context(), dial, agentapi.JoinTLS(a.SHA256(), time.Now))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	_, err = agentapi.NewAgentLinkClient(cc).Renew(t.Context(), &agentapi.RenewRequest{})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v", err)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "ca")
	before, err := agentapi.OpenAuthority(dir, cluster, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := agentapi.RotateAuthority(dir, cluster, time.Now()); err != nil {
		t.Fatal(err)
	}
	after, err := agentapi.OpenAuthority(dir, cluster, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if before.SHA256() == after.SHA256() {
		t.Error("the CA did not change")
	}
	if d := cmp.Diff(before.CAs()[0], after.CAs()[1]); d != "" {
		t.Error("the old CA is not trusted any more")
	}
}

func TestAuthorityFileModes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "ca")
	if _, err := agentapi.OpenAuthority(dir, cluster, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "ca.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := agentapi.OpenAuthority(dir, cluster, time.Now()); err == nil || !strings.Contains(err.Error(), "must be 0600") {
		t.Errorf("got %v", err)
	}
}
