package job

// Reason says why a job is in its state, in Slurm's exact words (squeue(1),
// JOB REASON CODES). The empty reason prints as None.
type Reason string

// Reasons the controller sets.
const (
	ReasonNone              Reason = ""
	ReasonPriority          Reason = "Priority"
	ReasonResources         Reason = "Resources"
	ReasonDependency        Reason = "Dependency"
	ReasonNeverSatisfied    Reason = "DependencyNeverSatisfied"
	ReasonArrayTaskLimit    Reason = "JobArrayTaskLimit"
	ReasonBeginTime         Reason = "BeginTime"
	ReasonHeldUser          Reason = "JobHeldUser"
	ReasonHeldAdmin         Reason = "JobHeldAdmin"
	ReasonMaxRequeue        Reason = "JobHoldMaxRequeue"
	ReasonPartitionDown     Reason = "PartitionDown"
	ReasonPartitionInactive Reason = "PartitionInactive"
	ReasonPartitionNodes    Reason = "PartitionNodeLimit"
	ReasonPartitionTime     Reason = "PartitionTimeLimit"
	ReasonReqNodeNotAvail   Reason = "ReqNodeNotAvail"
	ReasonBadConstraints    Reason = "BadConstraints"
	ReasonNodeDown          Reason = "NodeDown"
	ReasonNonZeroExit       Reason = "NonZeroExitCode"
	ReasonRaisedSignal      Reason = "RaisedSignal"
	ReasonTimeLimit         Reason = "TimeLimit"
	ReasonLaunchFailure     Reason = "JobLaunchFailure"
	ReasonOutOfMemory       Reason = "OutOfMemory"
	ReasonDeadline          Reason = "DeadLine"
	ReasonSystemFailure     Reason = "SystemFailure"
	ReasonProlog            Reason = "Prolog"
)

// String prints None for the empty reason.
func (r Reason) String() string {
	if r == "" {
		return "None"
	}
	return string(r)
}

// Held says whether a pending job waits for a release.
func (r Reason) Held() bool {
	return r == ReasonHeldUser || r == ReasonHeldAdmin || r == ReasonMaxRequeue
}
