package agent

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
)

// credentialName is the node's credential in the state folder, without suffix.
const credentialName = "node"

// credential gives a certificate that is good now: the one on disk, or a new one
// for the join token. The key is on disk before the token is spent, so that a crash
// tries again with the same key.
func (a *Agent) credential(ctx context.Context) (agentapi.Credential, error) {
	path := filepath.Join(a.cfg.StateDir, credentialName)
	c, err := agentapi.LoadCredential(path)
	if err == nil && a.cfg.Now().Before(c.Cert.NotAfter) {
		return c, nil
	}
	if a.cfg.Token == "" {
		return c, fmt.Errorf("no valid certificate and no join token: %w", err)
	}
	if c.Key == nil {
		if c.Key, err = agentapi.NewKey(); err != nil {
			return c, err
		}
		if err := agentapi.SaveKey(path, c.Key); err != nil {
			return c, err
		}
	}
	if err := a.join(ctx, path, c); err != nil {
		return c, fmt.Errorf("join the cluster: %w", err)
	}
	return agentapi.LoadCredential(path)
}

func (a *Agent) join(ctx context.Context, path string, c agentapi.Credential) error {
	token, err := agentapi.ParseToken(a.cfg.Token)
	if err != nil {
		return err
	}
	csr, err := agentapi.NewRequest(c.Key, a.cfg.Node)
	if err != nil {
		return err
	}
	ca := token.CASHA256
	if a.cfg.CASHA256 != "" {
		ca = a.cfg.CASHA256
	}
	cc, err := agentapi.Connect(ctx, a.dial, agentapi.JoinTLS(ca, a.cfg.Now))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := agentapi.NewAgentLinkClient(cc).Join(ctx, &agentapi.JoinRequest{Token: a.cfg.Token, Csr: csr})
	if err = errors.Join(err, cc.Close()); err != nil {
		return err
	}
	a.log.Info("joined the cluster")
	return agentapi.SaveReply(path, reply)
}

// renew replaces the certificate once two thirds of its life are over. The session
// under way keeps the old one; the next connection shows the new.
func (a *Agent) renew(ctx context.Context, client agentapi.AgentLinkClient, cert *x509.Certificate) error {
	if a.cfg.Now().Before(agentapi.RenewAt(cert)) {
		return nil
	}
	path := filepath.Join(a.cfg.StateDir, credentialName)
	c, err := agentapi.LoadCredential(path)
	if err != nil || a.cfg.Now().Before(agentapi.RenewAt(c.Cert)) {
		return err
	}
	csr, err := agentapi.NewRequest(c.Key, a.cfg.Node)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := client.Renew(ctx, &agentapi.RenewRequest{Csr: csr})
	if err != nil {
		return fmt.Errorf("renew certificate: %w", err)
	}
	a.log.Info("certificate renewed")
	return agentapi.SaveReply(path, reply)
}
