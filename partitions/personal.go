package partitions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sbatchd/sbatchd/partitions/slurmconf"
	"github.com/sbatchd/sbatchd/partitions/tres"
)

// Personal is what WritePersonalDefault must be told about the user's machine.
type Personal struct {
	ClusterName string // empty: personal
	User        string // who runs the controller
	StateDir    string // absolute
	RestSocket  string // absolute path of the socket for commands
	AgentSocket string // absolute path of the socket for agents
	CPUs        int    // of the machine; 0: 1
	RealMemory  tres.Memory
	Gres        []tres.Gres // GPUs of the machine
	MaxNodes    int         // local nodes at once; 0: 1
}

// PoolsFileName is the file that a generated slurm.conf includes.
const PoolsFileName = "pools.conf"

// WritePersonalDefault writes a ready configuration for personal mode into dir,
// which it makes if needed: a pool "local" on the user's own machine, without
// containers, in the user's own directories, and the default partition "local" on
// it. A slurm.conf that is there is the user's: then nothing is written, and a
// pools.conf is never replaced. It reports whether it wrote slurm.conf.
func WritePersonalDefault(dir string, o Personal) (bool, error) {
	main := filepath.Join(dir, FileName)
	if _, err := os.Lstat(main); err == nil {
		return false, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("write personal config: %w", err)
	}
	slurm, pools, err := o.text()
	if err != nil {
		return false, fmt.Errorf("write personal config: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, fmt.Errorf("write personal config: %w", err)
	}
	// slurm.conf comes last: once it is there, the configuration is complete.
	if _, err := writeNew(filepath.Join(dir, PoolsFileName), pools); err != nil {
		return false, fmt.Errorf("write personal config: %w", err)
	}
	wrote, err := writeNew(main, slurm)
	if err != nil {
		return false, fmt.Errorf("write personal config: %w", err)
	}
	return wrote, nil
}

// writeNew writes a whole file unless the name is taken.
func writeNew(path, text string) (bool, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return false, err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // the name is gone or harmless
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return false, err
	}
	err = os.Link(f.Name(), path) // unlike a rename, it never replaces a file
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil { // a file system without hard links
		err = os.Rename(f.Name(), path)
	}
	return err == nil, err
}

// text returns the two files.
func (o Personal) text() (slurm, pools string, err error) {
	cluster := o.ClusterName
	if cluster == "" {
		cluster = "personal"
	}
	var b strings.Builder
	b.WriteString(`# sbatchd's configuration for one user, written once and yours to change.
# "sbatchd check" tells whether it is right; "scontrol reconfigure" loads it again.
`)
	for _, kv := range [...][2]string{
		{"ClusterName", cluster},
		{"SlurmUser", o.User},
		{"StateSaveLocation", o.StateDir},
		{"RestListen", "unix:" + o.RestSocket},
		{"AgentListen", "unix:" + o.AgentSocket},
	} {
		v, err := slurmconf.Quote(kv[1])
		if err != nil {
			return "", "", fmt.Errorf("%s: %w", kv[0], err)
		}
		fmt.Fprintf(&b, "%s=%s\n", kv[0], v)
	}
	types := []string{}
	seen := map[string]bool{"gpu": true}
	for _, g := range o.Gres {
		if !seen[g.Name] {
			seen[g.Name] = true
			types = append(types, g.Name)
		}
	}
	fmt.Fprintf(&b, "GresTypes=%s\n", strings.Join(append([]string{"gpu"}, types...), ","))
	if o.CPUs > 0 && o.RealMemory > 0 {
		// A job that names no memory gets its CPUs' part, not the whole machine.
		fmt.Fprintf(&b, "DefMemPerCPU=%d\n", uint64(o.RealMemory)/uint64(o.CPUs))
	}
	b.WriteString(`SuspendTime=300

# A script made for the university's cluster names its partitions. Say here what
# they are on this machine; * stands for every name that is not known.
#PartitionAlias=gpu:local,long:local
#PartitionAlias=*:local

Include pools.conf
PartitionName=local Pools=local Default=YES MaxTime=UNLIMITED
`)
	gres := ""
	if len(o.Gres) > 0 {
		gres = " Gres=" + tres.FormatGres(o.Gres)
	}
	memory := ""
	if o.RealMemory > 0 {
		memory = fmt.Sprintf(" RealMemory=%d", uint64(o.RealMemory))
	}
	pools = fmt.Sprintf(`# Where nodes come from. "local" is this machine: jobs run here as you, without a
# container, in the directory you submit from. Add a ProviderName and PoolName of
# your own cloud account and list the pool in slurm.conf's Pools=.
ProviderName=local Type=local
PoolName=local Provider=local Runtime=process Workdir=shared CPUs=%d%s%s MaxNodes=%d
`, max(o.CPUs, 1), memory, gres, max(o.MaxNodes, 1))
	return b.String(), pools, nil
}
