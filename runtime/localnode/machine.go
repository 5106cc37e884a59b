package localnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/atomicfile"
)

// The files of a machine's folder.
const (
	MachineFile  = "machine.json"    // what it is; written before any process starts
	AgentFile    = "agent.json"      // agentapi.Config
	ForwardFile  = "forward.json"    // the running machine's process
	ReadyFile    = "ready"           // its init has started the agent
	ActiveFile   = "active"          // its first job has started (by the agent)
	NoticeFile   = "reclaim.json"    // agentapi.Notice
	ReleaseFile  = "release.json"    // auto-release time
	PoweroffFile = "poweroff"        // the agent wants the machine to end
	DeletedFile  = "deleted"         // deletion was asked: never start it again
	LinkSocket   = "link.sock"       // leads to the controller's AgentListen
	EgressSocket = "egress.sock"     // HTTP CONNECT proxy in the host's network
	SSHSocket    = "ssh.sock"        // leads to the node's sshd
	ConsoleFile  = "console.log"     // what its processes print
	lockFile     = "machine.lock"    // held as long as the machine lives
	hostKeyFile  = "ssh_host_key"    // of its sshd
	authKeysFile = "authorized_keys" // who may log in
)

// Mark is the environment variable every process of a machine carries, with
// the tag as its value.
const Mark = "SBATCHD_INSTANCE"

// Machine describes one local node. It is written once, before its first
// process starts, and holds no secret.
type Machine struct {
	Tag         string    `json:"tag"`
	ClusterUUID string    `json:"cluster"`
	Epoch       uint64    `json:"epoch"`
	Pool        string    `json:"pool"`
	Node        string    `json:"node"`
	Offer       string    `json:"offer"`
	Region      string    `json:"region,omitempty"`
	Zone        string    `json:"zone,omitempty"`
	PriceMicros int64     `json:"priceMicros"`
	Currency    string    `json:"currency,omitempty"`
	CreatedAt   time.Time `json:"createdAt"`

	Binary     string `json:"binary"`             // sbatchd-node
	Isolated   bool   `json:"isolated"`           // namespaces of its own
	Index      int    `json:"index"`              // among the nodes of its pool: its address there
	PoolFolder string `json:"poolFolder"`         // holds the folders of all machines that may share a pool
	HostsFile  string `json:"hosts,omitempty"`    // /etc/hosts of the pool's nodes
	HostRoot   string `json:"hostRoot,omitempty"` // where the node's agent finds the host's files; "" nowhere
	SSH        bool   `json:"ssh,omitempty"`      // runs a sshd
	Controller string `json:"controller"`         // what link.sock leads to; "" is no such socket
	// HiddenDirs are folders below what the node sees read-only that it must
	// find empty (the site's configuration and keys).
	HiddenDirs   []string  `json:"hiddenDirs,omitempty"`
	CgroupParent string    `json:"cgroupParent"`
	Reclaims     []Reclaim `json:"reclaims,omitempty"`
	CountFile    string    `json:"countFile,omitempty"` // how often each rule of the market has hit
}

// Reclaim is one rule of the market that may take this machine. Exactly one of
// After, AfterJob and At is meant: the first that is set.
type Reclaim struct {
	Rule     string        `json:"rule"`  // its text: what its hits are counted under
	Times    int           `json:"times"` // at most this many hits; 0 is no limit
	After    time.Duration `json:"after,omitempty"`
	AfterJob time.Duration `json:"afterJob,omitempty"`
	At       time.Time     `json:"at,omitzero"`
	Notice   time.Duration `json:"notice,omitempty"`
}

// process is the content of ForwardFile.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // as /proc counts it
	NetFD int    `json:"netFD"` // of the pool's network namespace; 0 is none
}

// Load reads a machine's description. The error is fs.ErrNotExist when there is
// no machine in the folder.
func Load(dir string) (Machine, error) {
	var m Machine
	if err := readJSON(filepath.Join(dir, MachineFile), &m); err != nil {
		return m, err
	}
	if m.Tag == "" {
		return m, fmt.Errorf("%s: no tag", filepath.Join(dir, MachineFile))
	}
	return m, nil
}

// Save writes a machine's description durably, in one step.
func Save(dir string, m Machine) error {
	return writeJSON(filepath.Join(dir, MachineFile), m)
}

// Alive reports whether the machine runs: whether a process holds its lock.
// Nothing but the lock counts, so a reused process id deceives nobody.
func Alive(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() // read only
	l := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l); err != nil {
		return false, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return l.Type != unix.F_UNLCK, nil
}

// Started reports whether the machine was ever running. One that was and is
// not Alive is dead for good.
func Started(dir string) bool { return exists(filepath.Join(dir, ForwardFile)) }

// SetRelease sets when the machine ends by itself. The error is fs.ErrNotExist
// when there is no such machine.
func SetRelease(dir string, at time.Time) error {
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, ReleaseFile), struct{ At time.Time }{at})
}

// lock takes the machine's lock for the life of this process. It is false when
// another process has it, or when the folder is being deleted.
func lock(dir string) (bool, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	l := unix.Flock_t{Type: unix.F_WRLCK}
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, f.Close()
	}
	if err != nil {
		f.Close()
		return false, fmt.Errorf("%s: %w", path, err)
	}
	held = append(held, f)
	var mine, there unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &mine); err != nil {
		return false, err
	}
	if err := unix.Stat(path, &there); err != nil || mine.Ino != there.Ino {
		return false, nil // the folder went away meanwhile
	}
	return !exists(filepath.Join(dir, DeletedFile)), nil
}

// held keeps locked files open until the process ends.
var held []*os.File

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// writeJSON replaces a file in one step and makes it durable, its name too.
func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return atomicfile.WriteDurable(path, append(data, '\n'))
}
