package pool

import (
	"context"
	"fmt"
	"net"

	"github.com/sbatchd/sbatchd/cloudburst"
)

// DialSSH opens a connection to the sshd of a machine, and says which host key
// it must show (as in known_hosts). A machine whose provider does not tell the
// key can't be reached safely and is an error.
func (p *Pool) DialSSH(ctx context.Context, tag cloudburst.Tag) (net.Conn, string, error) {
	s := p.cfg.Ledger.Snapshot()
	for _, r := range s.Rows {
		if r.Tag != tag || !r.Live() {
			continue
		}
		a, err := p.account(s.Config, r.Provider)
		if err != nil {
			return nil, "", err
		}
		var list []cloudburst.Instance
		err = p.call(ctx, a, "list", func(ctx context.Context) (err error) {
			list, err = a.provider.List(ctx)
			return err
		})
		if err != nil {
			return nil, "", fmt.Errorf("find %s: %w", tag, err)
		}
		for _, i := range list {
			if i.Tag == tag && i.Live() {
				return dialInstance(ctx, a.provider, i)
			}
		}
	}
	return nil, "", fmt.Errorf("%s: %w", tag, cloudburst.ErrNotFound)
}

func dialInstance(ctx context.Context, provider cloudburst.Provider, i cloudburst.Instance) (net.Conn, string, error) {
	if i.HostKey == "" {
		return nil, "", fmt.Errorf("%s: its provider does not tell the host key", i.Tag)
	}
	if d, ok := provider.(cloudburst.SSHDialer); ok {
		c, err := d.DialSSH(ctx, i)
		return c, i.HostKey, err
	}
	if i.Address == "" {
		return nil, "", fmt.Errorf("%s has no address yet", i.Tag)
	}
	address := i.Address
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(address, "22")
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	return c, i.HostKey, err
}
