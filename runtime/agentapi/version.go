package agentapi

import "fmt"

// The protocol of this build. A controller speaks its own minor version and the
// previous one; an agent whose minor is newer speaks down to the controller's.
const (
	ProtocolMajor uint32 = 1
	ProtocolMinor uint32 = 0
)

// BatchStep is the step id of the batch script, as Slurm numbers it.
const BatchStep uint32 = 4294967291

// ChunkBytes is the most data one Output, Chunk or PutRequest carries.
const ChunkBytes = 64 << 10

// Names of the output streams.
const (
	StreamOut = "out" // stdout, and stderr when they share a file
	StreamErr = "err"
)

// Negotiate gives the minor version two peers speak, or an error that says both
// versions. Same major; the lower minor wins and may be one behind the higher's.
func Negotiate(ownMajor, ownMinor, peerMajor, peerMinor uint32) (uint32, error) {
	low, high := min(ownMinor, peerMinor), max(ownMinor, peerMinor)
	if ownMajor != peerMajor || high-low > 1 {
		return 0, fmt.Errorf("agent protocol %d.%d does not go with %d.%d: upgrade the older side",
			peerMajor, peerMinor, ownMajor, ownMinor)
	}
	return low, nil
}

// NewAttempt names run restart of a job.
func NewAttempt(job, restart uint32) *Attempt {
	return &Attempt{Job: job, Restart: restart}
}

// Name is the attempt as folders and logs spell it: <job>.<restart>.
func (a *Attempt) Name() string {
	return fmt.Sprintf("%d.%d", a.GetJob(), a.GetRestart())
}

// Attempt is the run the key belongs to.
func (k *Key) Attempt() *Attempt {
	return NewAttempt(k.GetJob(), k.GetRestart())
}
