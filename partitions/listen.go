package partitions

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// maxSocketPath is what Linux takes as the path of a unix socket.
const maxSocketPath = 107

// listeners reads a comma list of addresses to listen on.
func (l *loader) listeners(key, def string) []Listen {
	var list []Listen
	seen := map[Listen]bool{}
	for _, text := range splitList(l.global.str(key, def)) {
		a, err := ParseListen(text)
		if err == nil && key == "AgentListen" && a.Network == "tls" {
			err = fmt.Errorf("%s: agents always use TLS, write tcp:%s", text, a.Address)
		}
		if err == nil && key == "RestListen" && a.Network == "tcp" && !isLoopback(a.Address) {
			err = fmt.Errorf("%s: plain tcp is for loopback addresses only, use tls:%s", text, a.Address)
		}
		if err == nil && seen[a] {
			err = fmt.Errorf("%s is given twice", text)
		}
		if err != nil {
			l.global.fault(key, "%v", err)
			continue
		}
		seen[a] = true
		list = append(list, a)
	}
	return list
}

// ParseListen reads "unix:/path", "tcp:host:port" or "tls:host:port".
func ParseListen(s string) (Listen, error) {
	network, addr, ok := strings.Cut(s, ":")
	a := Listen{Network: network, Address: addr}
	switch {
	case ok && network == "unix":
		if !filepath.IsAbs(addr) {
			return Listen{}, fmt.Errorf("%s: the path of a unix socket must be absolute", s)
		}
		if len(addr) > maxSocketPath {
			return Listen{}, fmt.Errorf("%s: the path of a unix socket has at most %d bytes", s, maxSocketPath)
		}
		return a, nil
	case ok && (network == "tcp" || network == "tls"):
		if _, _, err := splitAddress(addr); err != nil {
			return Listen{}, fmt.Errorf("%s: must end in host:port", s)
		}
		return a, nil
	}
	return Listen{}, fmt.Errorf("%s: must begin with a network, unix:, tcp: or tls:, and an address", s)
}

// splitAddress is net.SplitHostPort for a numeric port.
func splitAddress(s string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(s)
	if err != nil {
		return "", "", err
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 && port != "0" {
		return "", "", fmt.Errorf("port %q", port)
	}
	return host, port, nil
}

func isLoopback(addr string) bool {
	host, _, err := splitAddress(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
