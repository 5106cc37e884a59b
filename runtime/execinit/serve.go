package execinit

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const maxMessage = 16 << 20 // an environment, at most

// Send writes one message of the hook and step socket, with files.
func Send(conn *net.UnixConn, v any, files ...*os.File) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	message := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	n, _, err := conn.WriteMsgUnix(message, rights, nil)
	if err == nil && n < len(message) {
		_, err = conn.Write(message[n:])
	}
	return err
}

// Receive reads one message of the hook and step socket and the files that
// came with it, which are the caller's to close.
func Receive(conn *net.UnixConn, v any) (files []*os.File, err error) {
	head, rights := make([]byte, 4), make([]byte, unix.CmsgSpace(3*4))
	n, got, _, _, err := conn.ReadMsgUnix(head, rights)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	if files, err = parseRights(rights[:got]); err != nil {
		return files, err
	}
	if _, err := io.ReadFull(conn, head[n:]); err != nil {
		return files, err
	}
	size := binary.BigEndian.Uint32(head)
	if size > maxMessage {
		return files, fmt.Errorf("message of %d bytes", size)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(conn, text); err != nil {
		return files, err
	}
	return files, json.Unmarshal(text, v)
}

func parseRights(rights []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "stdio"))
		}
	}
	return files, nil
}

// listen makes the socket. The way over the open folder keeps the name short
// enough for a socket however deep the folder is.
func listen(dir string) (*net.UnixListener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close() // a folder
	name := filepath.Join("/proc/self/fd", fmt.Sprint(d.Fd()), SocketFile)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(filepath.Join(dir, SocketFile), 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// serve starts the hooks and steps that are asked for.
func (i *initProcess) serve(l *net.UnixListener, cfg Config) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return // the listener lives as long as the process
		}
		go i.serveOne(conn, cfg)
	}
}

func (i *initProcess) serveOne(conn *net.UnixConn, cfg Config) {
	defer conn.Close() // the other end learns by it
	var req Request
	files, err := Receive(conn, &req)
	defer func() {
		for _, f := range files {
			_ = f.Close() // the process has its own
		}
	}()
	if err != nil || len(req.Argv) == 0 {
		return
	}
	l, opened, err := i.launchOf(req, files, cfg)
	defer func() {
		if opened != nil {
			_ = opened.Close()
		}
	}()
	if err != nil {
		_ = Send(conn, Reply{Error: err.Error()})
		return
	}
	pid, done, err := i.spawn(l)
	if err != nil {
		_ = Send(conn, Reply{Error: err.Error()})
		return
	}
	if Send(conn, Reply{Pid: pid}) != nil {
		return // it goes on; only nobody is told
	}
	go func() {
		var order Order
		for {
			if _, err := Receive(conn, &order); err != nil {
				return
			}
			i.signal(pid, done, order.Signal)
		}
	}()
	r := <-done
	_ = Send(conn, Reply{Pid: pid, Exit: &r})
}

// signal signals a child unless it has been reaped.
func (i *initProcess) signal(pid int, done chan Result, sig int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.waiting[pid] == done {
		_ = unix.Kill(pid, unix.Signal(sig)) // a zombie takes no harm
	}
}

func (i *initProcess) launchOf(req Request, files []*os.File, cfg Config) (l launch, null *os.File, err error) {
	l = launch{
		argv: req.Argv, env: AddEnv(cfg.Env, req.Env), cwd: req.Cwd, user: req.User,
		umask: cfg.Umask, rlimits: cfg.Rlimits, dropCaps: cfg.DropCaps,
	}
	if l.cwd == "" {
		l.cwd = cfg.Cwd
	}
	if l.user == nil {
		l.user = cfg.User
	}
	if l.user != nil && os.Geteuid() != 0 {
		if int(l.user.UID) != os.Geteuid() {
			return l, nil, fmt.Errorf("run as uid %d: not root", l.user.UID)
		}
		l.user = nil
	}
	streams := [3]*os.File{nil, i.stdout, i.stderr}
	for n, has := range []bool{req.HasStdin, req.HasStdout, req.HasStderr} {
		if !has {
			continue
		}
		if len(files) == 0 {
			return l, nil, errors.New("a stream is missing")
		}
		streams[n], files = files[0], files[1:]
	}
	if streams[0] == nil {
		if null, err = os.Open(os.DevNull); err != nil {
			return l, nil, err
		}
		streams[0] = null
	}
	l.stdio = func() ([3]*os.File, error) { return streams, nil }
	return l, null, nil
}

// AddEnv sets more variables; a later one wins.
func AddEnv(env, more []string) []string {
	names := map[string]bool{}
	for _, kv := range more {
		name, _, _ := strings.Cut(kv, "=")
		names[name] = true
	}
	kept := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return names[name]
	})
	return append(kept, more...)
}
