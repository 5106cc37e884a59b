package queue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/scheduler"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/sbatchd/store"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// Submission is a job to accept.
type Submission struct {
	Spec     *job.Spec
	Script   []byte
	Env      []byte // NUL-separated NAME=value
	Account  string
	QOS      string
	Comment  string
	Hold     bool
	Priority *uint32 // asked for; admins only
	// IdempotencyKey makes a retry get the answer of the first, for a day; Digest
	// is of the whole request, which must be the same.
	IdempotencyKey, Digest string
	// TestOnly checks everything and accepts nothing.
	TestOnly bool
	// Parts are the further components of a heterogeneous job. Its script is the
	// first component's.
	Parts []Submission
}

// Submitted is the answer to a Submission.
type Submitted struct {
	ID        job.ID
	Partition string
	// Warning is a condition that lets the job wait (Slurm answers it beside success).
	Warning error
	// Start and Nodes are the plan of a TestOnly submission.
	Start time.Time
	Nodes []job.NodeAlloc
}

// maxScript is Slurm's default max_script_size.
const maxScript = 4 << 20

// Submit accepts a job: when it returns without error the job is durable.
func (q *Queue) Submit(ctx context.Context, who auth.Identity, in Submission) (Submitted, error) {
	var out Submitted
	script, env := blob(in.Script), blob(in.Env)
	if err := checkScript(in.Script); err != nil {
		return out, err
	}
	err := q.send(ctx, who.User, func(w *work) (err error) {
		if k, ok := w.idempotent(who.UID, in.IdempotencyKey); ok {
			if k.Digest != in.Digest {
				return errno.RESTInvalidQuery
			}
			out.ID = job.NewID(k.Job)
			if k.Warning != 0 {
				out.Warning = errno.Errno(k.Warning)
			}
			if j, ok := w.Job(k.Job); ok {
				out.ID, out.Partition = j.ID, j.Partition
			}
			return nil
		}
		out, err = w.submit(who, in, script, env)
		return err
	})
	return out, err
}

func blob(data []byte) store.Blob {
	if len(data) == 0 {
		return store.Blob{}
	}
	sum := sha256.Sum256(data)
	return store.Blob{Hash: hex.EncodeToString(sum[:]), Data: data}
}

// checkScript repeats on the server what sbatch checks before it sends.
func checkScript(script []byte) error {
	switch {
	case len(script) == 0:
		return errno.JobScriptMissing
	case len(script) > maxScript:
		return errno.PathnameTooLong
	case !bytes.HasPrefix(script, []byte("#!")), bytes.IndexByte(script, 0) >= 0, bytes.Contains(script, []byte("\r\n")):
		return errno.WritingToFile
	}
	return nil
}

// umaskOf is the submitter's umask, as sbatch puts it into the environment;
// without one the usual 022.
func umaskOf(env []byte) uint32 {
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if text, ok := bytes.CutPrefix(v, []byte("SLURM_UMASK=")); ok {
			if n, err := strconv.ParseUint(string(text), 8, 12); err == nil {
				return uint32(n)
			}
		}
	}
	return 0o022
}

func (w *work) idempotent(uid uint32, key string) (store.IdempotencyKey, bool) {
	if key == "" {
		return store.IdempotencyKey{}, false
	}
	for _, k := range w.idem {
		if k.UID == uid && k.Key == key {
			return k, true
		}
	}
	k, ok := w.q.idem[idemKey{uid, key}]
	return k, ok
}

// submit accepts a job with all its components, or none.
func (w *work) submit(who auth.Identity, in Submission, script, env store.Blob) (Submitted, error) {
	if len(in.Parts) == 0 {
		return w.accept(who, in, nil, script, env)
	}
	het := job.Het{Leader: w.NextJobID, Count: len(in.Parts) + 1}
	out, err := w.accept(who, in, new(het), script, env)
	for _, part := range in.Parts {
		if het.Offset++; err == nil {
			part.Env = in.Env
			_, err = w.accept(who, part, new(het), script, env)
		}
	}
	return out, err
}

// accept takes one record's job; het is its place among components, if it has any.
func (w *work) accept(who auth.Identity, in Submission, het *job.Het, script, env store.Blob) (Submitted, error) {
	var out Submitted
	if het != nil && in.Spec.Array != "" {
		return out, errno.InvalidArray
	}
	if err := w.may(who, actSubmit, "submit"); err != nil {
		return out, err
	}
	id, tasks, array, err := w.newID(in.Spec.Array)
	if err != nil {
		return out, err
	}
	if w.JobCount()+max(1, tasks.Len()) > w.Config.MaxJobCount {
		return out, errno.MaxJobCount
	}
	depends, err := scheduler.ReadDepends(w.State, in.Spec.Dependency, 0)
	if err != nil {
		return out, err
	}
	spec, warning, err := w.resolve(who, in.Spec)
	if in.Hold && errors.Is(err, errno.RequestedNodeConfigUnavailable) {
		err = nil // a held job may wait for nodes that are yet to come
	}
	if err == nil && warning != nil && !strings.EqualFold(w.Config.EnforcePartLimits, "NO") && w.Config.EnforcePartLimits != "" {
		err = warning
	}
	if err != nil {
		return out, err
	}
	if err := w.charge(who.User, scheduler.SplitPartitions(spec)[0], &in); err != nil {
		return out, err
	}
	spec.ScriptHash, spec.EnvHash = script.Hash, env.Hash
	spec.Umask = umaskOf(in.Env)
	j := &job.Job{
		ID: id, Tasks: tasks, Array: array, Het: het, Depends: depends, Spec: spec,
		User: who.User, UID: who.UID, GID: who.GID, Groups: slices.Clone(who.Groups),
		Account: in.Account, QOS: in.QOS, Comment: in.Comment, Priority: priorityOf(spec),
		Partition: scheduler.SplitPartitions(spec)[0],
		Submit:    w.Now, Begin: spec.Begin,
	}
	if !spec.Begin.After(w.Now) {
		j.Eligible = w.Now
	}
	if in.Priority != nil && (*in.Priority == 0 || who.Role == auth.Admin) {
		j.Priority = *in.Priority
	}
	if in.Hold || j.Priority == 0 {
		j.Priority, j.Reason = 0, job.ReasonHeldUser
	}
	out = Submitted{ID: j.ID, Partition: j.Partition, Warning: warning}
	if in.TestOnly {
		out.Start, out.Nodes = w.Now, nil
		return out, nil
	}
	if err := w.emit(state.JobSubmitted{Job: j}); err != nil {
		return out, err
	}
	for _, b := range []store.Blob{script, env} {
		if b.Hash != "" {
			w.blobs = append(w.blobs, b)
		}
	}
	if in.IdempotencyKey != "" {
		k := store.IdempotencyKey{UID: who.UID, Key: in.IdempotencyKey, Digest: in.Digest, Job: j.ID.Raw, Time: w.Now}
		if e, ok := errno.Of(warning); ok {
			k.Warning = int(e)
		}
		w.idem = append(w.idem, k)
	}
	return out, nil
}

// newID is the id of the next job, and of an array what its tasks are.
func (w *work) newID(text string) (id job.ID, tasks job.TaskSet, array *job.Array, err error) {
	id = job.NewID(w.NextJobID)
	if text == "" {
		return id, tasks, nil, nil
	}
	id.Array = id.Raw
	tasks, array, err = job.NewArray(text, uint32(w.Config.MaxArraySize))
	most, bad := strconv.Atoi(w.Config.SchedulerParameters["max_array_tasks"])
	if err != nil || bad == nil && tasks.Len() > most {
		err = errno.InvalidArray
	}
	return id, tasks, array, err
}

// priorityOf is the priority of a new job while no factor has a weight: 1 for
// all, as with priority/multifactor; an admin's negative --nice raises it.
func priorityOf(s *job.Spec) uint32 {
	return uint32(max(1, 1-int64(s.Nice)))
}

// resolve fills a spec's defaults from its partitions and checks that it may
// and could run. The warning is a limit that lets it wait.
func (w *work) resolve(who auth.Identity, in *job.Spec) (*job.Spec, error, error) {
	s := *in
	if err := w.unknownNames(who, &s); err != nil {
		return nil, nil, err
	}
	parts, err := w.partitions(who, s.Partitions)
	if err != nil {
		return nil, nil, err
	}
	s.Partitions = names(parts)
	first := parts[0]
	if !s.TimeSet {
		if s.TimeLimit = uint32(first.DefaultTime); first.DefaultTime == tres.NoVal {
			s.TimeLimit = uint32(first.MaxTime)
		}
	}
	if s.TimeMin > s.TimeLimit {
		return nil, nil, errno.InvalidTimeMinLimit
	}
	if !s.Deadline.IsZero() && s.Deadline.Before(w.Now) {
		return nil, nil, errno.InvalidTimeLimit
	}
	if s.Image != "" && w.Config.Image(s.Image) == nil && !strings.Contains(s.Image, "@sha256:") {
		return nil, nil, errno.InvalidContainerID
	}
	return &s, w.warning(&s, parts), w.feasible(&s, parts)
}

// unknownNames refuses what names nothing that exists here: no reservations
// and no licences are configured yet, and nodes must be the config's.
func (w *work) unknownNames(who auth.Identity, s *job.Spec) error {
	switch {
	case s.WorkDir == "":
		return errno.MissingWorkDir
	case s.Nice < 0 && who.Role != auth.Admin:
		return errno.InvalidNice
	case s.Reservation != "":
		return errno.ReservationInvalid
	case s.Licenses != "":
		return errno.InvalidLicenses
	case s.ExcNodes == "":
		return nil
	}
	names, err := hostlist.Parse(s.ExcNodes)
	if err != nil {
		return errno.InvalidNodeName
	}
	for _, name := range names {
		if _, ok := w.Node(name); !ok {
			return errno.InvalidNodeName
		}
	}
	return nil
}

// feasible needs one partition on which the job could run.
func (w *work) feasible(s *job.Spec, parts []*partitions.Partition) error {
	var first error
	for _, p := range parts {
		err := scheduler.Feasible(w.State, s, p)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// warning is the limit of its partition a job exceeds: it then waits, unless
// EnforcePartLimits refuses it.
func (w *work) warning(s *job.Spec, parts []*partitions.Partition) error {
	p := parts[0]
	if s.TimeLimit > uint32(p.MaxTime) {
		return errno.InvalidTimeLimit
	}
	if p.MaxNodes > 0 && s.NodesMin > p.MaxNodes {
		return errno.InvalidNodeCount
	}
	return nil
}

// partitions resolves a comma list of names (aliases included; empty is the
// default) to partitions that take the user's jobs.
func (w *work) partitions(who auth.Identity, list string) ([]*partitions.Partition, error) {
	if list == "" {
		p := w.Config.DefaultPartition()
		if p == nil {
			return nil, errno.DefaultPartitionNotSet
		}
		return []*partitions.Partition{p}, w.mayUse(who, p)
	}
	var out []*partitions.Partition
	for name := range strings.SplitSeq(list, ",") {
		p := w.Config.ResolvePartition(name)
		if p == nil {
			return nil, errno.InvalidPartition
		}
		if err := w.mayUse(who, p); err != nil {
			return nil, err
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// names is the list of partitions as a spec keeps it.
func names(parts []*partitions.Partition) string {
	list := make([]string, len(parts))
	for i, p := range parts {
		list[i] = p.Name
	}
	return strings.Join(list, ",")
}

func (w *work) mayUse(who auth.Identity, p *partitions.Partition) error {
	switch strings.ToUpper(p.State) {
	case "DRAIN", "INACTIVE":
		return errno.PartitionNotAvail
	}
	if p.RootOnly && who.Role != auth.Admin {
		return errno.AccessDenied
	}
	if p.DisableRootJobs && who.UID == 0 {
		return errno.AccessDenied
	}
	if len(p.AllowGroups) > 0 && who.Role != auth.Admin && !w.q.inGroups(who, p.AllowGroups) {
		return errno.JobMissingRequiredPartitionGroup
	}
	return nil
}
