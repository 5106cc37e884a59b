package partitions

import "strings"

// kind is one sort of statement: the global keys, or the lines of one record.
type kind struct {
	name string          // "" for the global keys, else the record's key
	keys map[string]*key // by lower-case spelling
	// foreign tells records of which nothing means anything here.
	foreign bool
}

// key is one known key. Acted tells keys that mean something here from those
// that only Slurm acts on.
type key struct {
	name  string // Slurm's spelling
	acted bool
}

// newKind makes a kind from two word lists.
func newKind(name, acted, known string) *kind {
	k := &kind{name: name, keys: map[string]*key{}, foreign: acted == ""}
	for _, list := range []struct {
		words string
		acted bool
	}{{known, false}, {acted, true}} {
		for w := range strings.FieldsSeq(list.words) {
			k.keys[strings.ToLower(w)] = &key{name: w, acted: list.acted}
		}
	}
	return k
}

// Records by the lower-case key that starts their line.
var kinds = map[string]*kind{}

func init() {
	for _, k := range []*kind{providerKind, poolKind, imageKind, nodeKind, nodeSetKind, downNodesKind, partitionKind, frontendKind, powerActionKind} {
		kinds[strings.ToLower(k.name)] = k
	}
}

var providerKind = newKind("ProviderName", `ProviderName
	Type CredentialFile Trust Market Url Program`, "")

var poolKind = newKind("PoolName", `PoolName
	Provider Gres GpuMemory CPUs RealMemory TmpDisk Disk Volume ScratchPath Capacity MinNodes MaxNodes
	MaxPrice Budget CostAccount MinBalance Regions Zones InstanceType Interconnect Trust Encrypt Driver
	DriverUrl DriverSha256 Image BootImage Runtime Workdir SyncInterval StageOutTimeout HomeFiles Mounts Env
	Proxy AgentLink Feature Features Weight SuspendTime ResumeTimeout PreemptNotice UserData State`, "")

var imageKind = newKind("ImageName", `ImageName Ref Cuda Cann MinDriver Source`, "")

var nodeKind = newKind("NodeName", `NodeName
	NodeHostname NodeAddr Port CPUs Procs Boards Sockets SocketsPerBoard CoresPerSocket ThreadsPerCore
	CoreSpecCount RealMemory MemSpecLimit TmpDisk Gres Feature Features Weight State Reason`,
	`BcastAddr CpuBind CpuSpecList GresConf Parameters RestrictedCoresPerGPU SuspendTime Topology TRESWeights`)

var nodeSetKind = newKind("NodeSet", `NodeSet Feature Nodes`, "")

var downNodesKind = newKind("DownNodes", `DownNodes Reason State`, "")

var partitionKind = newKind("PartitionName", `PartitionName
	Pools Image AllowTrust Overflow ModuleMap
	AllocNodes AllowAccounts DenyAccounts AllowGroups AllowQos DenyQos Alternate Default DefaultTime
	DefCpuPerGPU DefMemPerGPU DefMemPerCPU DefMemPerNode DisableRootJobs Exclusive ExclusiveUser ExclusiveTopo
	GraceTime Hidden JobDefaults LLN MaxCPUsPerNode MaxCPUsPerSocket MaxMemPerCPU MaxMemPerNode MaxNodes
	MinNodes MaxTime Nodes OverSubscribe Shared OverTimeLimit PowerDownOnIdle PreemptMode Priority
	PriorityJobFactor PriorityTier QOS ReqResv ResumeTimeout SuspendTimeout SuspendTime RootOnly
	SelectTypeParameters State TRESBillingWeights`,
	`CpuBind Topology`)

// Front-end nodes (to 24.11) and power actions (26.05) only Slurm knows.
var (
	frontendKind    = newKind("FrontendName", "", `FrontendName AllowGroups AllowUsers DenyGroups DenyUsers FrontendAddr Port Reason State`)
	powerActionKind = newKind("PowerAction", "", `PowerAction Location Program`)
)

// globalKind lists every global key of Slurm 20.11 to 26.05 and ours.
var globalKind = newKind("", `
	AgentListen AgentAddress RestListen FenceTimeout OrphanTimeout CheckpointStore PartitionAlias JobLogLimit
	InteractiveIdle
	AccountingStorageEnforce AccountingStorageHost AccountingStorageLoc AccountingStoragePass AccountingStoragePort
	AccountingStorageTRES AccountingStorageType AccountingStorageUser AuthAltParameters ClusterName
	DefMemPerCPU DefMemPerNode DependencyParameters DisableRootJobs EnforcePartLimits FirstJobId GresTypes JobFileAppend JobRequeue
	KillWait MaxArraySize MaxBatchRequeue MaxJobCount MaxJobId MaxMemPerCPU MaxMemPerNode MessageTimeout MinJobAge
	OverTimeLimit PreemptExemptTime PreemptMode PreemptParameters PreemptType PriorityCalcPeriod
	PriorityDecayHalfLife PriorityFavorSmall PriorityFlags PriorityMaxAge PriorityType PriorityUsageResetPeriod
	PriorityWeightAge PriorityWeightAssoc PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition
	PriorityWeightQOS PriorityWeightTRES PrivateData ResumeRate ResumeTimeout ReturnToService SchedulerParameters
	SelectTypeParameters SlurmctldDebug SlurmctldHost SlurmctldLogFile SlurmctldParameters SlurmctldPort
	SlurmdTimeout SlurmUser StateSaveLocation SuspendRate SuspendTime SuspendTimeout TmpFS
	PropagateResourceLimits PropagateResourceLimitsExcept`, `
	AccountingStorageBackupHost AccountingStorageExternalHost AccountingStorageParameters AccountingStoreFlags
	AccountingStoreJobComment AcctGatherEnergyType AcctGatherFilesystemType AcctGatherInfinibandType
	AcctGatherInterconnectType AcctGatherNodeFreq AcctGatherProfileType AllowSpecResourcesUsage AuthAltTypes AuthInfo
	AuthType BackupAddr BackupController BatchStartTimeout BcastExclude BcastParameters BurstBufferParameters
	BurstBufferType CacheGroups CertgenParameters CertgenType CertmgrParameters CertmgrType CheckpointType
	CliFilterParameters CliFilterPlugins CommunicationParameters CompleteWait ControlAddr ControlMachine
	CoreSpecPlugin CpuFreqDef CpuFreqGovernors CredType CryptoType DataParserParameters DebugFlags
	DefaultStorageHost DefaultStorageLoc DefaultStoragePass DefaultStoragePort DefaultStorageType
	DefaultStorageUser DefCpuPerGPU DefMemPerGPU EioTimeout Epilog EpilogMsgTime
	EpilogSlurmctld EpilogTimeout ExtSensorsFreq ExtSensorsType FairShareDampeningFactor FastSchedule
	FederationParameters GetEnvTimeout GpuFreqDef GroupUpdateForce GroupUpdateTime HashPlugin HealthCheckInterval
	HealthCheckNodeState HealthCheckProgram HealthCheckTimeout HttpParserType InactiveLimit
	InteractiveStepOptions JobAcctGatherFrequency JobAcctGatherParams JobAcctGatherType JobCheckpointDir
	JobCompHost JobCompLoc JobCompParams JobCompPass JobCompPassScript JobCompPort JobCompType JobCompUser
	JobContainerPlugin JobContainerType JobCredentialPrivateKey JobCredentialPublicCertificate JobDefaults
	JobSubmitPlugins KeepAliveTime KillOnBadExit LaunchParameters LaunchType LicenseParameters Licenses
	LogTimeFormat MailDomain MailProg MaxDBDMsgs MaxNodeCount MaxStepCount MaxTasksPerNode MCSParameters
	MCSPlugin MemLimitEnforce MetricsAuthUsers MetricsParameters MetricsType MpiDefault MpiParams
	MsgAggregationParams NamespaceType NodeFeaturesPlugins PluginDir PlugStackConfig PowerParameters PowerPlugin
	PrEpParameters PrEpPlugins PriorityParameters PrioritySiteFactorParameters PrioritySiteFactorPlugin
	ProctrackType Prolog PrologEpilogTimeout PrologFlags PrologSlurmctld PrologTimeout PropagatePrioProcess
	RebootProgram ReconfigFlags RequeueExit RequeueExitHold
	ResumeFailProgram ResumeProgram ResvEpilog ResvOverRun ResvProlog RoutePlugin SallocDefaultCommand
	SbcastParameters SchedulerAuth SchedulerPort SchedulerRootFilter SchedulerTimeSlice SchedulerType
	ScronParameters SelectType SlurmctldAddr SlurmctldHttpAuthParameters SlurmctldPidFile SlurmctldPlugstack
	SlurmctldPrimaryOffProg SlurmctldPrimaryOnProg SlurmctldSyslogDebug SlurmctldTimeout SlurmdDebug
	SlurmdHttpAuthParameters SlurmdLogFile SlurmdParameters SlurmdPidFile SlurmdPort SlurmdSpoolDir
	SlurmdSyslogDebug SlurmdUser SlurmSchedLogFile SlurmSchedLogLevel SrunEpilog SrunPortRange SrunProlog
	SuspendExcNodes SuspendExcParts SuspendExcStates SuspendProgram SwitchParameters SwitchType TaskEpilog
	TaskPlugin TaskPluginParam TaskProlog TCPTimeout TLSParameters TLSType TopologyParam TopologyPlugin
	TrackWCKey TreeWidth UnkillableStepProgram UnkillableStepTimeout UrlParserType UsePAM VSizeFactor WaitTime
	X11Parameters`)

// repeatable are the global keys whose values add up; of others the last counts.
var repeatable = map[string]bool{"slurmctldhost": true, "partitionalias": true}
