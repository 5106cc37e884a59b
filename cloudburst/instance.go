package cloudburst

import (
	"time"
)

// InstanceID is the provider's own name of an instance.
type InstanceID string

// State is where an instance is in its life, the same words for every
// provider.
type State string

// An instance's states. An instance costs money in every state but Gone.
const (
	Pending  State = "pending"  // asked for, not yet booted
	Running  State = "running"  // booted; its agent may or may not have called
	Stopping State = "stopping" // being deleted or reclaimed
	Stopped  State = "stopped"  // kept, not running (some clouds stop what they reclaim)
	Gone     State = "gone"     // does not exist any more
)

// AgentConfig is what the agent on the new machine needs to find its way home.
// The join token is a secret: it reaches the machine and nothing else.
type AgentConfig struct {
	Controller     string // agentapi address the agent dials: tcp:host:port or unix:/path
	Link           string // dial or ssh
	JoinToken      string
	CASHA256       string // of the controller's CA certificate, hex
	CPUs           int    // what the node declares; 0 is what the machine has
	MemoryMiB      int64  // the same
	Gres           string // the same, in Slurm's form: gpu:a100:2
	Features       []string
	Runtime        string        // containerd or process
	Workdir        string        // shared, sync or none
	AuthorizedKeys []string      // ssh: keys that may log in, one authorized_keys line each
	OrphanTimeout  time.Duration // the machine ends this long after it lost the controller
}

// Request asks for one machine.
type Request struct {
	Tag         Tag
	ClusterUUID string
	Epoch       uint64 // of the leadership that asks
	Pool        string // nodes of one pool reach each other
	NodeName    string
	Offer       Offer
	BootImage   string // the provider's image; "" is the driver's default
	UserData    string // start-up text; short, providers cut it
	Agent       AgentConfig
	AutoRelease time.Time // the provider ends the machine then by itself; zero is never
}

// Instance is one machine as its provider describes it.
type Instance struct {
	ID          InstanceID
	Tag         Tag
	ClusterUUID string
	Epoch       uint64
	NodeName    string
	Offer       OfferID
	State       State
	Region      string
	Zone        string
	Address     string // host or host:port for ssh; "" when not reachable or not yet known
	HostKey     string // of its sshd, as in known_hosts ("ssh-ed25519 AAAA..."); "" is unknown
	Price       Money  // per hour, as charged; zero when the provider does not say
	CreatedAt   time.Time
	ReclaimAt   *time.Time // announced end; nil when none is announced
}

// Live reports whether the instance still exists and so still costs money.
func (i Instance) Live() bool { return i.State != Gone }
