package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions/slurmconf"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

const (
	// siteConf is where a site's configuration lies if nothing says otherwise.
	siteConf = "/etc/sbatchd/slurm.conf"
	// DefaultSocket is the listener of a configuration without RestListen.
	DefaultSocket = "/run/sbatchd/sbatchd.sock"

	dialTimeout = 5 * time.Second
)

// Endpoint is one place where a controller may listen.
type Endpoint struct {
	Network string // "unix" or "tcp"
	Address string // path, or host:port
	TLS     bool
}

// String prints the endpoint as SBATCHD_SERVER takes it.
func (e Endpoint) String() string {
	switch {
	case e.Network == "unix":
		return "unix://" + e.Address
	case e.TLS:
		return "https://" + e.Address
	}
	return "http://" + e.Address
}

// ParseEndpoint reads unix:///path, unix:/path, https://host:port or
// http://host:port.
func ParseEndpoint(s string) (Endpoint, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		path = "/" + strings.TrimLeft(path, "/")
		if path == "/" {
			return Endpoint{}, fmt.Errorf("server %q: no path", s)
		}
		return Endpoint{Network: "unix", Address: path}, nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return Endpoint{}, fmt.Errorf("server %q: want unix:///path or https://host:port", s)
	}
	e := Endpoint{Network: "tcp", Address: u.Host, TLS: u.Scheme == "https"}
	if u.Port() == "" {
		e.Address = net.JoinHostPort(u.Hostname(), "6820")
	}
	return e, nil
}

// listen reads one word of RestListen: unix:/path, tcp:host:port, tls:host:port.
func listen(word string) (Endpoint, bool) {
	network, addr, ok := strings.Cut(strings.TrimSpace(word), ":")
	switch {
	case !ok || addr == "":
		return Endpoint{}, false
	case network == "unix":
		return Endpoint{Network: "unix", Address: addr}, true
	case network == "tcp", network == "tls":
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return Endpoint{}, false
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "localhost"
		}
		return Endpoint{Network: "tcp", Address: net.JoinHostPort(host, port), TLS: network == "tls"}, true
	}
	return Endpoint{}, false
}

// Candidates lists where to look for the controller, in order. decided is set
// when the environment names the place, so that no other may be tried.
func Candidates(getenv func(string) string) (list []Endpoint, decided bool, err error) {
	if s := getenv("SBATCHD_SERVER"); s != "" {
		e, err := ParseEndpoint(s)
		return []Endpoint{e}, true, err
	}
	if conf := getenv("SBATCHD_CONF"); conf != "" {
		list, _, err := endpoints(conf)
		return list, true, err
	}
	if socket := PersonalSocket(getenv); own(socket) {
		list = append(list, Endpoint{Network: "unix", Address: socket})
	}
	if conf := getenv("SLURM_CONF"); conf != "" {
		// Without RestListen it is another Slurm's.
		if more, named, err := endpoints(conf); err == nil && named {
			list = append(list, more...)
		}
	}
	if more, _, err := endpoints(siteConf); err == nil {
		list = append(list, more...)
	}
	return list, false, nil
}

// endpoints reads the RestListen of a configuration; named tells whether it has
// one, else the default socket stands in.
func endpoints(conf string) (list []Endpoint, named bool, err error) {
	doc, faults := slurmconf.Read(conf)
	if len(doc.Files) == 0 && len(faults) > 0 {
		return nil, false, fmt.Errorf("%s: %s", faults[0].File, faults[0].Msg)
	}
	for _, statement := range doc.Statements {
		for _, pair := range statement {
			if !pair.Is("RestListen") {
				continue
			}
			for word := range strings.SplitSeq(pair.Value, ",") {
				if e, ok := listen(word); ok {
					list = append(list, e)
				}
			}
		}
	}
	if len(list) == 0 {
		return []Endpoint{{Network: "unix", Address: DefaultSocket}}, false, nil
	}
	return list, true, nil
}

// Find returns a client of the first controller that takes a connection. Its
// error is errno.ControllerConnect, with what was tried wrapped beside it.
func Find(ctx context.Context, getenv func(string) string, opts ...Option) (*Client, error) {
	list, _, err := Candidates(getenv)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errno.ControllerConnect, err)
	}
	tried := []error{}
	for _, e := range list {
		c := New(e, append([]Option{WithToken(getenv("SLURM_JWT"))}, opts...)...)
		if err := c.connect(ctx); err != nil {
			tried = append(tried, fmt.Errorf("%s: %w", e, err))
			continue
		}
		return c, nil
	}
	if len(tried) == 0 {
		tried = append(tried, errors.New("no controller is configured; set SBATCHD_SERVER or SBATCHD_CONF"))
	}
	return nil, fmt.Errorf("%w: %w", errno.ControllerConnect, errors.Join(tried...))
}
