package partitions

import (
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
)

// Never is the SuspendTime of nodes that are kept for ever.
const Never time.Duration = -1

// Config is a whole configuration: checked, defaults filled in, immutable.
// Load makes it; a reload makes a new one.
type Config struct {
	Path  string   // the slurm.conf
	Files []string // every file that was read, in order

	ClusterName       string
	SlurmctldHosts    []string // first is primary
	AgentListen       []Listen
	RestListen        []Listen
	AgentAddress      string // host:port that nodes dial
	StateSaveLocation string
	SlurmUser         string
	AccountingStorage AccountingStorage
	AuthAlt           AuthAlt
	PrivateData       []string

	GresTypes []string

	ResumeTimeout  time.Duration
	SuspendTime    time.Duration // idle time before a node is given back; Never
	SuspendTimeout time.Duration
	SlurmdTimeout  time.Duration // silence after which a node is DOWN*
	FenceTimeout   time.Duration // silence after which its jobs are requeued
	OrphanTimeout  time.Duration // silence after which an agent shuts its machine down
	MinJobAge      time.Duration
	KillWait       time.Duration
	MessageTimeout time.Duration
	OverTimeLimit  tres.Minutes // Infinite: jobs are not stopped
	ResumeRate     int          // nodes a minute; 0 is without limit
	SuspendRate    int

	CheckpointStore string // file:///path or s3://bucket[/prefix]?endpoint=...

	FirstJobID, MaxJobID uint32
	MaxArraySize         int // largest index + 1
	// KillInvalidDepend ends jobs whose dependency can't be met.
	KillInvalidDepend    bool
	MaxJobCount          int
	MaxBatchRequeue      int
	JobRequeue           bool
	JobFileAppend        bool
	EnforcePartLimits    string // NO, ANY or ALL
	DisableRootJobs      bool
	DefMemPerCPU         tres.Memory // 0: not set; at most one of the two is
	DefMemPerNode        tres.Memory
	MaxMemPerCPU         tres.Memory
	MaxMemPerNode        tres.Memory
	SchedulerParameters  map[string]string
	SlurmctldParameters  map[string]string
	Priority             Priority
	Preempt              Preempt
	ReturnToService      int
	JobLogLimit          int64         // bytes of one output stream; 0 is without limit
	InteractiveIdle      time.Duration // idle time after which an interactive job ends; 0: never
	SlurmctldDebug       string        // quiet, fatal, error, info, verbose, debug, debug2..debug5
	SlurmctldLogFile     string        // empty: standard error
	TmpFS                string
	SelectTypeParameters []string // CR_Core_Memory, ...

	PartitionAlias map[string]string // a script's partition name (or "*") -> ours

	Partitions []*Partition // in the order of the file
	Pools      []*Pool
	Providers  []*Provider
	Images     []*Image
	Nodes      []*Node // static nodes, one per name

	Warnings []Fault
	// Values holds every global key as written, under Slurm's spelling of it,
	// for "scontrol show config".
	Values map[string]string

	// The first of a name counts; made by index.
	partition map[string]*Partition
	pool      map[string]*Pool
	provider  map[string]*Provider
	image     map[string]*Image
	node      map[string]*Node
}

// StorageMySQL is the AccountingStorageType that keeps the state in MySQL or MariaDB.
const StorageMySQL = "accounting_storage/mysql"

// AccountingStorage says where accounting, and with MySQL the state, is kept.
type AccountingStorage struct {
	Type    string // accounting_storage/sqlite, /mysql or /none
	Host    string
	Port    int
	User    string
	Pass    string // the password itself, or file:PATH or env:NAME
	Loc     string // database, or path of the SQLite file
	Enforce []string
	TRES    []string
}

// AuthAlt holds AuthAltParameters.
type AuthAlt struct {
	JWTKey               string // path of the HS256 key
	JWKS                 string // path of a JWKS file with RS256 keys
	UserClaimField       string
	DisableTokenCreation bool
	MaxTokenLifespan     time.Duration // 0 is without limit
}

// Priority holds the Priority* keys.
type Priority struct {
	Type            string // priority/multifactor or priority/basic
	MaxAge          time.Duration
	DecayHalfLife   time.Duration // 0: usage never decays
	CalcPeriod      time.Duration
	UsageReset      string // NONE, NOW, DAILY, ...
	FavorSmall      bool
	Flags           []string
	WeightAge       int
	WeightAssoc     int
	WeightFairshare int
	WeightJobSize   int
	WeightPartition int
	WeightQOS       int
	WeightTRES      map[string]float64
}

// Preempt holds the Preempt* keys.
type Preempt struct {
	Type       string   // preempt/none, preempt/partition_prio, preempt/qos
	Mode       []string // OFF, CANCEL, REQUEUE, SUSPEND, GANG, ...
	ExemptTime time.Duration
	Parameters map[string]string
}

// Listen is an address to listen on.
type Listen struct {
	Network string // unix, tcp or tls
	Address string // a path, or host:port
}

// String prints it as it is written in the file.
func (l Listen) String() string { return l.Network + ":" + l.Address }

// Provider is one account at one cloud.
type Provider struct {
	Name           string
	Type           string // name of the driver
	CredentialFile string // path of a file of mode 0600
	Trust          Trust  // what its pools are unless they say otherwise
	Market         string // local: the file with offers, prices and reclaims
	URL            string // openstack, slurm, ...
	Program        string // exec
	At             Position
}

// Pool is up to MaxNodes nodes that one provider can make to one description.
type Pool struct {
	Name     string
	Provider *Provider
	State    string // UP or DOWN: a DOWN pool rents nothing

	// What a node must have. A provider of type local gives nodes exactly
	// this, whatever the machine has: there CPUs defaults to 1 and RealMemory
	// to 1024 MiB for each CPU. Elsewhere 0 means "whatever the offer has".
	Gres       []tres.GresRange
	GpuMemory  tres.Memory // of each GPU, at least; 0: any
	CPUs       int
	RealMemory tres.Memory
	TmpDisk    tres.Memory

	Disk        tres.Memory // size of the boot disk; 0: the provider's default
	Volume      string      // a provider's volume to attach
	ScratchPath string      // where a node's fast disk is mounted

	Capacity    Capacity
	MinNodes    int // kept running, even idle
	MaxNodes    int
	MaxPrice    Money // per node and hour; zero: no cap
	Budget      Money // per month; zero: no cap
	MinBalance  Money // of the account; below it nothing is rented
	CostAccount string
	Weight      int

	Regions      []string // glob patterns; empty: any
	Zones        []string
	InstanceType string
	Interconnect Interconnect
	Trust        Trust
	Encrypt      bool

	Driver       string // driver version, as in 550.90.07; empty: any
	DriverURL    string
	DriverSHA256 string
	Image        *Image
	BootImage    string
	UserData     string // path of a file handed to the machine at boot
	Runtime      Runtime

	Workdir         Workdir
	SyncInterval    time.Duration // 0: only at the end
	StageOutTimeout time.Duration
	HomeFiles       []string // files of the home directory that travel along
	Mounts          []string // host:container[:options]
	Env             map[string]string
	Proxy           string
	AgentLink       AgentLink

	Features      []string
	SuspendTime   time.Duration // Never: nodes stay
	ResumeTimeout time.Duration
	PreemptNotice time.Duration // 0: what the provider says

	At Position
}

// Image is a container image pinned by digest.
type Image struct {
	Name      string
	Ref       string // name[:tag]@sha256:...
	Digest    string // sha256:...
	Cuda      string // CUDA version it was built with
	Cann      string // the same for Ascend
	MinDriver string // oldest driver it runs on
	Source    string // where it is built from
	At        Position
}

// Node is a static node: a machine of one's own.
type Node struct {
	Name           string
	HostName       string
	Addr           string
	Port           int
	CPUs           int
	Boards         int
	Sockets        int
	CoresPerSocket int
	ThreadsPerCore int
	RealMemory     tres.Memory
	MemSpecLimit   tres.Memory
	TmpDisk        tres.Memory
	CoreSpecCount  int
	Gres           []tres.Gres
	Features       []string
	Weight         int
	State          string // UNKNOWN, DOWN, DRAIN, ...
	Reason         string
	At             Position
}

// Partition is a queue: nodes, and the rules for using them.
type Partition struct {
	Name    string
	Default bool
	State   string // UP, DOWN, DRAIN or INACTIVE

	Pools []*Pool // in the order of preference
	Nodes []*Node
	// NodesText is Nodes= as written, node sets included.
	NodesText string

	Image      *Image   // before the pool's
	AllowTrust []Trust  // empty: any
	Overflow   string   // partition that takes a job whose queue timeout is over
	ModuleMap  string   // path of a map from module names to images
	Alternate  string   // partition used while this one is DRAIN or INACTIVE
	QOS        string   // partition QOS
	JobDefs    []string // JobDefaults

	MaxTime       tres.Minutes // Infinite
	DefaultTime   tres.Minutes // NoVal: MaxTime
	OverTimeLimit tres.Minutes // NoVal: the global one
	MaxNodes      int          // Unlimited
	MinNodes      int
	GraceTime     time.Duration

	AllowGroups   []string // empty: all
	AllowAccounts []string
	DenyAccounts  []string
	AllowQOS      []string
	DenyQOS       []string
	AllocNodes    []string

	PriorityTier      int
	PriorityJobFactor int
	PreemptMode       []string // empty: the global one
	OverSubscribe     string   // NO, YES, FORCE or EXCLUSIVE
	MaxShare          int      // jobs per resource with YES and FORCE
	Exclusive         string   // NO, NODE, USER or TOPO

	DefMemPerCPU      tres.Memory // 0: the global one
	DefMemPerNode     tres.Memory
	MaxMemPerCPU      tres.Memory
	MaxMemPerNode     tres.Memory
	DefCPUPerGPU      int
	DefMemPerGPU      tres.Memory
	MaxCPUsPerNode    int // Unlimited
	MaxCPUsPerSocket  int // Unlimited
	Hidden            bool
	RootOnly          bool
	ReqResv           bool
	DisableRootJobs   bool
	LLN               bool
	PowerDownOnIdle   bool
	SuspendTime       time.Duration // 0: the pool's or global one
	ResumeTimeout     time.Duration
	SuspendTimeout    time.Duration
	SelectTypeParams  []string
	TRESBillingWeight map[string]float64
	At                Position
}

// Unlimited is the MaxNodes or MaxCPUsPerNode of a partition without such a limit.
const Unlimited = 1<<31 - 1

// Capacity is how a pool's nodes are bought.
type Capacity string

// Ways to buy.
const (
	Spot     Capacity = "spot"
	OnDemand Capacity = "ondemand"
	Auto     Capacity = "auto" // spot while there is some, else on demand
	Reserved Capacity = "reserved"
	Prepaid  Capacity = "prepaid"
)

// Runtime is what runs a job on a node.
type Runtime string

// Runtimes.
const (
	Containerd Runtime = "containerd"
	Process    Runtime = "process"
	Kubernetes Runtime = "kubernetes"
)

// Workdir is how a job's work directory gets to its node.
type Workdir string

// Ways of the work directory.
const (
	WorkdirShared Workdir = "shared" // the same file system is there
	WorkdirSync   Workdir = "sync"   // copied there and back
	WorkdirNone   Workdir = "none"
)

// Trust is whose machine a node is.
type Trust string

// Levels of trust, from most to least.
const (
	TrustOwn    Trust = "own"    // one's own machine
	TrustCloud  Trust = "cloud"  // a machine rented from a cloud
	TrustShared Trust = "shared" // somebody else's machine, shared
)

// AgentLink is who opens the connection between agent and controller.
type AgentLink string

// Ways of the agent link.
const (
	Dial AgentLink = "dial" // the agent dials AgentAddress
	SSH  AgentLink = "ssh"  // the controller opens SSH to the instance
)

// Interconnect is what joins a node's GPUs or a job's nodes.
type Interconnect string

// Interconnects.
const (
	AnyLink    Interconnect = "any"
	NVLink     Interconnect = "nvlink"
	PCIe       Interconnect = "pcie"
	InfiniBand Interconnect = "ib"
)
