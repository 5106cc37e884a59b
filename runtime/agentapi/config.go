package agentapi

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Config is the agent's configuration file, agent.json in its state folder,
// mode 0600. Whoever makes the node writes it: the local provider, or the
// start-up text of a rented machine. The token is a secret of this file alone.
type Config struct {
	Node       string   `json:"node"`
	Tag        string   `json:"tag"`     // of the instance, cloudburst.Tag
	Cluster    string   `json:"cluster"` // UUID of the controller's cluster
	Epoch      uint64   `json:"epoch,omitempty"`
	Controller string   `json:"controller"` // tcp:host:port or unix:/path
	Link       string   `json:"link"`       // dial or ssh
	Token      string   `json:"token"`
	CASHA256   string   `json:"caSHA256"` // of the controller's CA certificate, hex
	CPUs       int      `json:"cpus,omitempty"`
	MemoryMiB  int64    `json:"memoryMiB,omitempty"`
	Gres       string   `json:"gres,omitempty"` // as declared, Slurm's form; "" is what is found
	Features   []string `json:"features,omitempty"`
	Runtime    string   `json:"runtime"` // containerd or process
	Workdir    string   `json:"workdir,omitempty"`

	// NoticeFile is where an announced reclaim appears (see Notice), as a
	// cloud's metadata service would tell; "" is none.
	NoticeFile string `json:"noticeFile,omitempty"`
	// PoweroffFile ends the machine when the agent creates it; "" is the
	// machine's own poweroff command.
	PoweroffFile string `json:"poweroffFile,omitempty"`
	// OrphanSeconds after it lost the controller the agent saves its jobs and
	// ends the machine; 0 is never.
	OrphanSeconds int64 `json:"orphanSeconds,omitempty"`
	// ActiveFile is created by the agent when the first job's script on this
	// node has started; "" is nothing. A local market counts from then.
	ActiveFile string `json:"activeFile,omitempty"`
	// CgroupParent is the group all jobs' groups are made below, so that whoever
	// made the node can remove them; "" is the agent's choice.
	CgroupParent string `json:"cgroupParent,omitempty"`
	// Egress is an HTTP CONNECT proxy for what the agent itself fetches
	// (images, checkpoints): unix:/path or tcp:host:port; "" dials directly.
	Egress string `json:"egress,omitempty"`
	// HostRoot is where Workdir=shared finds the submit host's files, a folder
	// only root can enter; "" is none.
	HostRoot   string           `json:"hostRoot,omitempty"`
	Containerd ContainerdConfig `json:"containerd,omitzero"`
}

// ContainerdConfig says which containerd the agent uses.
type ContainerdConfig struct {
	Managed bool   `json:"managed"` // the agent starts and watches its own
	Socket  string `json:"socket"`
	Root    string `json:"root,omitempty"` // folder for a managed one's images and state
}

// Notice is the content of Config.NoticeFile: the machine is taken away at At.
type Notice struct {
	At            time.Time `json:"at"`
	NoticeSeconds float64   `json:"notice"` // how long before At it was announced
}

// LoadConfig reads an agent's configuration file. Unknown keys are left alone,
// so an older agent can start with a newer controller's file.
func LoadConfig(path string) (Config, error) {
	var c Config
	data, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("agent config: %w", err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("agent config %s: %w", path, err)
	}
	if c.Node == "" || c.Controller == "" {
		return c, fmt.Errorf("agent config %s: node and controller must be set", path)
	}
	return c, nil
}

// SaveConfig writes the file for its owner alone, replacing an old one in one
// step.
func SaveConfig(path string, c Config) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("agent config: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".agent-*.json") // mode 0600
	if err != nil {
		return fmt.Errorf("agent config: %w", err)
	}
	_, err = tmp.Write(append(data, '\n'))
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("agent config: %w", err)
	}
	return nil
}

// LoadNotice reads a notice file. A missing file is no notice and no error.
func LoadNotice(path string) (n Notice, ok bool, err error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return n, false, nil
	}
	if err != nil {
		return n, false, fmt.Errorf("reclaim notice: %w", err)
	}
	if err := json.Unmarshal(data, &n); err != nil {
		return n, false, fmt.Errorf("reclaim notice %s: %w", path, err)
	}
	return n, true, nil
}
