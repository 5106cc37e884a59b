package localnode

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// The network of a pool: a bridge in a namespace of its own, without an address
// and without a way out. That namespace lives as long as a machine of the pool
// holds a descriptor of it, so nothing is left when the last one goes.
const (
	bridgeName = "pool"
	poolMTU    = 1500
	slirpDNS   = "10.0.2.3"
)

// PoolAddress is the address of a pool's node by its index.
func PoolAddress(index int) net.IP {
	return net.IPv4(10, 99, byte(index/250), byte(index%250+1)).To4()
}

// network joins the node to its pool and, when slirp4netns is installed, gives
// it a way to the internet that does not reach the host's loopback.
func (h *host) network(self process) error {
	unlock, err := lockFileWait(filepath.Join(h.m.PoolFolder, "."+h.m.Pool+".netlock"))
	if err != nil {
		return err
	}
	defer unlock()
	pool, err := h.poolNetns()
	if err != nil {
		return err
	}
	self.NetFD = int(pool)
	if err := writeJSON(filepath.Join(h.dir, ForwardFile), self); err != nil {
		return err
	}
	if err := h.plugIn(pool); err != nil {
		return err
	}
	return h.startSlirp()
}

// poolNetns finds the namespace of the pool with a machine that has it, or
// makes it. The descriptor stays open for the life of this process.
func (h *host) poolNetns() (netns.NsHandle, error) {
	folders, err := os.ReadDir(h.m.PoolFolder)
	if err != nil {
		return 0, err
	}
	for _, f := range folders {
		dir := filepath.Join(h.m.PoolFolder, f.Name())
		m, err := Load(dir)
		if err != nil || m.Pool != h.m.Pool || m.ClusterUUID != h.m.ClusterUUID || m.Tag == h.m.Tag || !m.Isolated {
			continue
		}
		var p process
		if err := readJSON(filepath.Join(dir, ForwardFile), &p); err != nil || p.NetFD == 0 {
			continue
		}
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/fd/%d", p.PID, p.NetFD), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // it is gone
		}
		// Asked after the descriptor is ours: the process was that machine's.
		if _, _, start, err := stat(p.PID); err != nil || start != p.Start {
			unix.Close(fd)
			continue
		}
		return netns.NsHandle(fd), nil
	}
	return newPoolNetns()
}

func newPoolNetns() (netns.NsHandle, error) {
	type made struct {
		fd  int
		err error
	}
	done := make(chan made, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends in the new namespace
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- made{err: fmt.Errorf("new network namespace: %w", err)}
			return
		}
		fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		done <- made{fd, err}
	}()
	r := <-done
	if r.err != nil {
		return 0, r.err
	}
	nl, err := netlink.NewHandleAt(netns.NsHandle(r.fd))
	if err != nil {
		return 0, err
	}
	defer nl.Close()
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName, MTU: poolMTU}}
	if err := nl.LinkAdd(bridge); err != nil {
		return 0, fmt.Errorf("make bridge: %w", err)
	}
	return netns.NsHandle(r.fd), nl.LinkSetUp(bridge)
}

// plugIn connects the node's eth0 to the pool's bridge.
func (h *host) plugIn(pool netns.NsHandle) error {
	outer, err := netlink.NewHandleAt(pool)
	if err != nil {
		return err
	}
	defer outer.Close()
	bridge, err := outer.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("bridge of pool %s: %w", h.m.Pool, err)
	}
	port := fmt.Sprintf("n%d", h.m.Index)
	// What a machine of the same index left goes only when its namespace has
	// been torn down, which the kernel does in its own time.
	if old, err := outer.LinkByName(port); err == nil {
		if err := outer.LinkDel(old); err != nil && !errors.As(err, &netlink.LinkNotFoundError{}) {
			return fmt.Errorf("remove old port %s: %w", port, err)
		}
	}
	veth := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: port, MTU: poolMTU, MasterIndex: bridge.Attrs().Index},
		PeerName:  "eth0", PeerNamespace: netlink.NsPid(h.init),
	}
	if err := outer.LinkAdd(veth); err != nil {
		return fmt.Errorf("plug into pool %s: %w", h.m.Pool, err)
	}
	if err := outer.LinkSetUp(veth); err != nil {
		return err
	}
	node, err := netns.GetFromPid(h.init)
	if err != nil {
		return err
	}
	defer node.Close()
	inner, err := netlink.NewHandleAt(node)
	if err != nil {
		return err
	}
	defer inner.Close()
	for _, name := range []string{"lo", "eth0"} {
		link, err := inner.LinkByName(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if name == "eth0" {
			addr := &netlink.Addr{IPNet: &net.IPNet{IP: PoolAddress(h.m.Index), Mask: net.CIDRMask(16, 32)}}
			if err := inner.AddrAdd(link, addr); err != nil {
				return fmt.Errorf("address of %s: %w", name, err)
			}
		}
		if err := inner.LinkSetUp(link); err != nil {
			return fmt.Errorf("%s up: %w", name, err)
		}
	}
	return nil
}

// startSlirp gives the node a tap device that slirp4netns serves. Without the
// program the node has no way out, save for its agent's.
func (h *host) startSlirp() error {
	path, err := exec.LookPath("slirp4netns")
	if err != nil {
		h.log.Info("slirp4netns is not installed: jobs have no way to the internet")
		return nil
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close() // nothing written
	h.slirp, err = h.children.start(
		[]string{
			path, "--configure", "--mtu=65520", "--disable-host-loopback",
			"--netns-type=path", fmt.Sprintf("/proc/%d/ns/net", h.init), "tap0",
		},
		os.Environ(), "/", []*os.File{null, os.Stdout, os.Stderr}, &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL})
	return err
}

// lockFileWait takes an exclusive lock on a file, waiting for it.
func lockFileWait(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
