package localnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// serveSockets opens the machine's sockets and serves them until the process
// ends. netns is the path of the node's network namespace; nil is the host's.
func (h *host) serveSockets(ctx context.Context, netns func() (string, error)) error {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	if h.m.Controller != "" {
		network, address, ok := strings.Cut(h.m.Controller, ":")
		if !ok || network != "tcp" && network != "unix" {
			return fmt.Errorf("controller address %q is neither tcp:host:port nor unix:/path", h.m.Controller)
		}
		l, err := h.listen(LinkSocket)
		if err != nil {
			return err
		}
		go h.serve(l, func() (net.Conn, error) { return dialer.DialContext(ctx, network, address) })
	}
	if h.m.SSH {
		l, err := h.listen(SSHSocket)
		if err != nil {
			return err
		}
		go h.serve(l, func() (net.Conn, error) { return dialIn(ctx, netns, "127.0.0.1:22") })
	}
	l, err := h.listen(EgressSocket)
	if err != nil {
		return err
	}
	proxy := &http.Server{
		Handler:           &egress{dialer: dialer, transport: &http.Transport{DialContext: dialer.DialContext}},
		ReadHeaderTimeout: 30 * time.Second,
	}
	go func() { h.log.Error("egress proxy ended", "err", proxy.Serve(l)) }()
	return nil
}

// listen makes a socket in the machine's folder that only its owner can use.
func (h *host) listen(name string) (net.Listener, error) {
	path := filepath.Join(h.dir, name)
	if len(path) > 100 {
		return nil, fmt.Errorf("%s: too long for a unix socket (100 bytes): use a shorter StateSaveLocation", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(path, 0o600)
}

// serve joins every connection to a fresh one made by dial.
func (h *host) serve(l net.Listener, dial func() (net.Conn, error)) {
	for {
		in, err := l.Accept()
		if err != nil {
			h.log.Error("accept", "err", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		go func() {
			out, err := dial()
			if err != nil {
				h.log.Debug("forward", "err", err)
				in.Close() // the caller sees the end and tries again
				return
			}
			join(in, out)
		}()
	}
}

// join copies both ways, passing on each side's end, until both have ended.
func join(a, b net.Conn) {
	var wg sync.WaitGroup
	oneWay := func(to, from net.Conn) {
		io.Copy(to, from) //nolint:errcheck // either side's fault ends this direction
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			half.CloseWrite() //nolint:errcheck // the other side is gone already
		} else {
			to.Close()
		}
	}
	wg.Go(func() { oneWay(a, b) })
	wg.Go(func() { oneWay(b, a) })
	wg.Wait()
	a.Close() // all is said
	b.Close()
}

// dialIn connects inside a network namespace. A socket belongs to the namespace
// of the thread that made it, so the thread goes there and, if it cannot come
// back, is not used again.
func dialIn(ctx context.Context, netns func() (string, error), address string) (net.Conn, error) {
	if netns == nil {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", address)
	}
	path, err := netns()
	if err != nil {
		return nil, err
	}
	var conn net.Conn
	err = inNetns(path, func() error {
		tcp, err := net.ResolveTCPAddr("tcp4", address)
		if err != nil {
			return err
		}
		// Made by hand: net.Dial may start it on another thread.
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), address)
		defer f.Close() // FileConn has its own
		to := &unix.SockaddrInet4{Port: tcp.Port}
		copy(to.Addr[:], tcp.IP.To4())
		if err := unix.Connect(fd, to); err != nil {
			return fmt.Errorf("connect %s: %w", address, err)
		}
		conn, err = net.FileConn(f)
		return err
	})
	return conn, err
}

// inNetns runs do on a thread inside the network namespace at path.
func inNetns(path string, do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			runtime.UnlockOSThread()
			done <- err
			return
		}
		defer unix.Close(home) // nothing written
		there, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			runtime.UnlockOSThread()
			done <- err
			return
		}
		defer unix.Close(there) // nothing written
		if err := unix.Setns(there, unix.CLONE_NEWNET); err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("enter network of the node: %w", err)
			return
		}
		err = do()
		if unix.Setns(home, unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		} // else the thread ends with this goroutine
		done <- err
	}()
	return <-done
}

// egress is an HTTP proxy: CONNECT to anywhere the host can reach, and plain
// requests with an absolute URL.
type egress struct {
	dialer    *net.Dialer
	transport *http.Transport
}

func (e *egress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		e.connect(w, r)
		return
	}
	if !r.URL.IsAbs() {
		http.Error(w, "this is a proxy", http.StatusBadRequest)
		return
	}
	out := r.Clone(r.Context())
	out.RequestURI = ""
	out.Header.Del("Proxy-Connection")
	out.Header.Del("Proxy-Authorization")
	resp, err := e.transport.RoundTrip(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close() // copied to its end
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	io.Copy(w, resp.Body) //nolint:errcheck // the client sees a short body
}

func (e *egress) connect(w http.ResponseWriter, r *http.Request) {
	out, err := e.dialer.DialContext(r.Context(), "tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	in, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		out.Close()
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if n := buffered.Reader.Buffered(); n > 0 {
		early, _ := buffered.Reader.Peek(n) // cannot fail: they are there
		if _, err := out.Write(early); err != nil {
			in.Close()
			out.Close()
			return
		}
	}
	if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		in.Close()
		out.Close()
		return
	}
	join(in, out)
}
