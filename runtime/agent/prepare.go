package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/attempt"
	"github.com/sbatchd/sbatchd/runtime/checkpoint"
	"github.com/sbatchd/sbatchd/runtime/container"
	"github.com/sbatchd/sbatchd/runtime/image"
	"github.com/sbatchd/sbatchd/runtime/stage"
)

// errDriver: the node's GPU driver is older than the image needs.
var errDriver = errors.New("GPU driver")

// prepare gets everything ready that the shim needs and writes its spec. It ends
// early when the job is to be ended or the node is being taken away.
func (r *run) prepare(ctx context.Context) error {
	ctx, cancel := r.untilDisturbed(ctx, nil)
	defer cancel()
	err := r.prepareAll(ctx)
	select {
	case <-r.a.noticed:
		// Nothing has run: the controller starts it elsewhere.
		if err := r.save(func(p *progress) { p.Reclaimed = true }); err != nil {
			return err
		}
		if err := r.takeKill(killIntent{Kill: attempt.Kill{Reason: attempt.ReasonReclaimed, Quiet: true}, ByAgent: true}); err != nil {
			return err
		}
		return errors.New("the node is being taken away")
	case <-r.killed:
		return errors.New("the job was ended before it started")
	default:
		return err
	}
}

func (r *run) prepareAll(ctx context.Context) error {
	img, driver := r.launch.GetImage(), r.a.hardware.GetDriverVersion()
	err := image.CheckDriver(img.GetName(), driver, img.GetMinDriver())
	if err == nil {
		err = image.CheckDriverPin(r.launch.GetPoolDriver(), driver)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errDriver, err)
	}
	spec := r.spec()
	if r.launch.GetRuntime() == "containerd" {
		r.setPhase(phasePulling)
		if img.GetRef() == "" {
			return container.Failf(container.ErrUser, "the job has no image and its node runs containers")
		}
		ref, digest, err := r.a.cfg.Images.Ensure(ctx, img)
		if err != nil {
			return err // it names the image
		}
		spec.Run.Image = ref
		if err := r.save(func(p *progress) { p.Digest = digest }); err != nil {
			return err
		}
	}
	gpus, err := r.a.cfg.GPUDevices(ctx, r.launch.GetGpus(), r.launch.GetRuntime())
	if err != nil {
		return container.Failf(container.ErrInfra, "GPUs: %w", err)
	}
	spec.Run.CDI, spec.Run.Devices = gpus.CDI, gpus.Devices
	spec.Run.Env = append(spec.Run.Env, gpus.Env...)

	if err := r.makeDirs(ctx, spec); err != nil {
		return err
	}
	if err := r.restore(ctx); err != nil {
		return err
	}
	script, err := r.writeScript()
	if err != nil {
		return container.Fail(container.ErrInfra, err)
	}
	spec.Run.Argv = append([]string{script}, r.launch.GetArgs()...)
	if err := r.login(spec); err != nil {
		return container.Fail(container.ErrInfra, err)
	}
	return attempt.Write(r.dir, attempt.SpecFile, spec, false)
}

// spec is what the shim gets told, without what prepare finds out.
func (r *run) spec() *attempt.Spec {
	l := r.launch
	a := r.a
	a.mu.Lock()
	fence, killWait := a.fence, a.killWait
	a.mu.Unlock()
	spec := &attempt.Spec{
		Job: r.key.Job, Restart: r.key.Restart, Node: a.cfg.Node, Runtime: l.GetRuntime(),
		TimeLimit: time.Duration(l.GetTimeLimitS()) * time.Second,
		Signal: attempt.JobSignal{
			Number: int(l.GetSignal().GetSignal()), BatchOnly: l.GetSignal().GetBatchOnly(),
			Before: time.Duration(l.GetSignal().GetSeconds()) * time.Second,
		},
		KillWait: killWait, Fence: fence, LeaseFile: filepath.Join(a.cfg.StateDir, leaseFile),
		CPUs: int(l.GetCpus()), StepEnv: r.stepEnvironment(),
	}
	if l.GetRelay() {
		spec.JobSocket, spec.AgentSocket = filepath.Join(r.runDir(), jobSocket), a.relaySocket()
	}
	spec.Run = container.Spec{
		ID:  attempt.ContainerID(r.key.Job, r.key.Restart),
		Env: r.environment(), Cwd: l.GetWorkDir(),
		User:         userOf(l.GetUser()),
		Umask:        l.GetUmask(),
		Rlimits:      rlimits(l.GetRlimits()),
		CPUs:         float64(l.GetCpus()),
		MemoryMiB:    int64(l.GetMemoryMib()),
		NetworkHost:  true,
		CgroupParent: a.cfg.CgroupParent,
		Labels:       map[string]string{"sbatchd.job": r.key.String()},
	}
	r.setStreams(spec)
	for _, m := range l.GetMounts() {
		spec.Run.Mounts = append(spec.Run.Mounts, container.Mount{Source: m.GetSource(), Target: m.GetTarget(), ReadOnly: m.GetReadOnly()})
	}
	spec.Run.Mounts = append(spec.Run.Mounts, r.houseMounts()...)
	return spec
}

// houseMounts show a container the job's socket and script, and Slurm's commands.
// The commands are put where every image's PATH looks, for the image's PATH stands.
func (r *run) houseMounts() []container.Mount {
	if r.launch.GetRuntime() != "containerd" {
		return nil
	}
	mounts := []container.Mount{{Source: r.runDir(), Target: r.runDir(), ReadOnly: true}}
	if dir := r.a.commandsDir(); dir != "" && r.launch.GetRelay() {
		for _, name := range commandNames {
			mounts = append(mounts, container.Mount{
				Source: filepath.Join(dir, "slurm"), Target: "/usr/local/bin/" + name, ReadOnly: true,
			})
		}
	}
	return mounts
}

// setStreams says where the job's output goes: to files of the attempt's folder, or
// straight to the user's own where the work directory is shared.
func (r *run) setStreams(spec *attempt.Spec) {
	st := r.launch.GetStreams()
	run := &spec.Run
	if st.GetStdoutPath() != "" {
		run.StdioAsUser, run.Stdout, run.Stderr = true, st.GetStdoutPath(), st.GetStderrPath()
		run.Truncate = !st.GetAppend()
		spec.NotesAsUser = true
	} else {
		run.Stdout = filepath.Join(r.dir, attempt.OutFile)
		if !st.GetMerged() {
			run.Stderr = filepath.Join(r.dir, attempt.ErrFile)
		}
	}
	spec.Notes = run.Stderr
	if run.Stderr == "" {
		spec.Notes = run.Stdout
	}
	if run.StdioAsUser {
		spec.Notes = filepath.Join(r.a.cfg.HostRoot, spec.Notes)
	}
}

func userOf(u *agentapi.User) container.User {
	return container.User{
		UID: u.GetUid(), GID: u.GetGid(), Groups: u.GetGroups(),
		Name: u.GetName(), Group: u.GetGroup(), Home: u.GetHome(), Shell: u.GetShell(),
	}
}

// limitNames are the limits that Slurm propagates.
var limitNames = map[string]int{
	"CPU": unix.RLIMIT_CPU, "FSIZE": unix.RLIMIT_FSIZE, "DATA": unix.RLIMIT_DATA, "STACK": unix.RLIMIT_STACK,
	"CORE": unix.RLIMIT_CORE, "RSS": unix.RLIMIT_RSS, "NPROC": unix.RLIMIT_NPROC, "NOFILE": unix.RLIMIT_NOFILE,
	"MEMLOCK": unix.RLIMIT_MEMLOCK, "AS": unix.RLIMIT_AS,
}

func rlimits(in []*agentapi.Rlimit) []container.Rlimit {
	var out []container.Rlimit
	for _, l := range in {
		if res, ok := limitNames[l.GetName()]; ok {
			out = append(out, container.Rlimit{Resource: res, Soft: l.GetSoft()})
		}
	}
	return out
}

// Names in an attempt's run folder, which the job may enter.
const (
	jobSocket  = "sbatchd.sock"
	scriptFile = "slurm_script"
	workFolder = "work"
	homeFolder = "home"
	ckptFolder = "checkpoint"
)

func (r *run) runDir() string { return filepath.Join(r.a.cfg.RunDir, r.key.String()) }

// workDir is where the job's work directory lies on the node.
func (r *run) workDir() string {
	switch {
	case r.launch.GetWorkDirMode() != agentapi.WorkDir_WORKDIR_SHARED:
		return filepath.Join(r.runDir(), workFolder)
	case r.a.cfg.HostRoot != "":
		return r.sharedMount()
	}
	return r.launch.GetWorkDir()
}

// checkpointDir is the directory a checkpoint saves: on the node, and as the job
// sees it. Empty when the job has none.
func (r *run) checkpointDir() (onNode, inJob string) {
	dir := r.launch.GetCheckpoint().GetDir()
	if dir == "" {
		return "", ""
	}
	work := r.launch.GetWorkDir()
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(work, dir)
	}
	dir = filepath.Clean(dir)
	if rel, err := filepath.Rel(work, dir); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		return filepath.Join(r.workDir(), rel), dir
	}
	if r.launch.GetWorkDirMode() == agentapi.WorkDir_WORKDIR_SHARED && r.a.cfg.HostRoot == "" {
		return dir, dir
	}
	return filepath.Join(r.runDir(), ckptFolder), dir
}

// makeDirs makes the job's folders, fills its work directory and mounts them where
// the job expects them.
func (r *run) makeDirs(ctx context.Context, spec *attempt.Spec) error {
	u := r.launch.GetUser()
	if err := os.MkdirAll(r.runDir(), 0o711); err != nil {
		return container.Fail(container.ErrInfra, err)
	}
	mount := func(source, target string) error {
		if source != target && r.launch.GetRuntime() != "containerd" {
			// A container makes the place itself.
			if err := os.MkdirAll(target, 0o755); err != nil {
				return container.Fail(container.ErrInfra, err)
			}
		}
		spec.Run.Mounts = append(spec.Run.Mounts, container.Mount{Source: source, Target: target})
		return nil
	}
	own := func(name string) (string, error) {
		dir := filepath.Join(r.runDir(), name)
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return "", container.Fail(container.ErrInfra, err)
		}
		return dir, container.Fail(container.ErrInfra, chown(dir, u))
	}
	work := r.launch.GetWorkDir()
	shared := r.launch.GetWorkDirMode() == agentapi.WorkDir_WORKDIR_SHARED
	if home := u.GetHome(); !shared && filepath.IsAbs(home) && home != "/" && !under(home, work) && os.Geteuid() == 0 {
		dir, err := own(homeFolder)
		if err == nil && under(work, home) {
			err = r.makeWithin(dir, home, work)
		}
		if err == nil {
			err = mount(dir, home)
		}
		if err != nil {
			return err
		}
	}
	haveWork := true
	if shared {
		var err error
		if haveWork, err = r.openShared(); err != nil {
			return container.Fail(container.ErrInfra, err)
		}
	} else if _, err := own(workFolder); err != nil {
		return err
	}
	if r.launch.GetWorkDirMode() == agentapi.WorkDir_WORKDIR_SYNC {
		r.setPhase(phaseStaging)
		if err := r.stageIn(ctx); err != nil {
			return container.Fail(container.ErrInfra, err)
		}
	}
	switch canMount := os.Geteuid() == 0; {
	case !haveWork: // the job starts in /tmp, as with Slurm
	case canMount || shared:
		if err := mount(r.workDir(), work); err != nil {
			return err
		}
	default:
		spec.Run.Cwd = r.workDir() // an agent that is not root cannot mount
	}
	if onNode, inJob := r.checkpointDir(); onNode == filepath.Join(r.runDir(), ckptFolder) {
		if _, err := own(ckptFolder); err != nil {
			return err
		}
		return mount(onNode, inJob)
	}
	return nil
}

// makeWithin makes, in a home of the node, the folders that lead to the work
// directory, so that it can be mounted there.
func (r *run) makeWithin(dir, home, work string) error {
	rel, err := filepath.Rel(home, work)
	for name := range strings.SplitSeq(rel, "/") {
		dir = filepath.Join(dir, name)
		if err == nil {
			err = os.Mkdir(dir, 0o700)
		}
		if errors.Is(err, os.ErrExist) {
			err = nil
			continue
		}
		if err == nil {
			err = chown(dir, r.launch.GetUser())
		}
	}
	return container.Fail(container.ErrInfra, err)
}

// under says whether a path is a folder, or lies below it.
func under(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && (rel == "." || (rel != ".." && !strings.HasPrefix(rel, "../")))
}

func chown(path string, u *agentapi.User) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(path, int(u.GetUid()), int(u.GetGid()))
}

// stageInTries is how often the work directory is tried to be fetched before the job
// is given to another node.
const stageInTries = 5

// stageIn fills the work directory, over a link that may be cut meanwhile.
func (r *run) stageIn(ctx context.Context) error {
	dir, link := r.staging()
	var backoff agentapi.Backoff
	for try := 1; ; try++ {
		err := stage.In(ctx, dir, link)
		if err == nil || ctx.Err() != nil || try == stageInTries || errors.Is(err, container.ErrUser) {
			return err
		}
		r.log.Warn("work directory is not here yet", "err", err)
		if err := agentapi.Sleep(ctx, backoff.Next()); err != nil {
			return err
		}
	}
}

// stageFile remembers, in the attempt's folder, what the work directory was given.
const stageFile = "stage.json"

// staging is the job's work directory and the way to where it was submitted.
func (r *run) staging() (stage.Copy, stage.Link) {
	return stage.Copy{
		Dir: r.workDir(), Owner: r.owner(), State: filepath.Join(r.dir, stageFile),
		In: r.launch.GetStageIn(), Out: r.launch.GetStageOut(),
	}, r.a.files(r.key, agentapi.FileKind_FILE_WORKDIR)
}

// restore puts the newest complete checkpoint back. A store that cannot be reached
// is waited for: to start over would throw away what was computed.
func (r *run) restore(ctx context.Context) error {
	plan := r.launch.GetCheckpoint()
	dir, _ := r.checkpointDir()
	if dir == "" {
		return nil
	}
	var backoff agentapi.Backoff
	for {
		err := r.tryRestore(ctx, dir, plan.GetRestoreNumber() >= 0 && r.key.Restart > 0)
		if err == nil || ctx.Err() != nil || errors.Is(err, checkpoint.ErrOld) {
			return err
		}
		r.log.Warn("checkpoint is not restored yet", "err", err)
		if err := agentapi.Sleep(ctx, backoff.Next()); err != nil {
			return err
		}
	}
}

func (r *run) tryRestore(ctx context.Context, dir string, restore bool) error {
	set, err := r.checkpoints(ctx)
	if errors.Is(err, errNoStore) {
		r.log.Warn("checkpoints have nowhere to go", "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	// From here on an earlier run of the job cannot save any more.
	if err := set.Begin(ctx, r.key.Restart); err != nil {
		return err
	}
	if !restore {
		return nil
	}
	r.setPhase(phaseRestoring)
	m, err := set.Restore(ctx, checkpoint.Target{Dir: dir, Owner: r.owner()})
	if errors.Is(err, checkpoint.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	r.log.Info("checkpoint restored", "number", m.Number)
	return r.save(func(p *progress) { p.Restored = int32(m.Number) })
}

// writeScript puts the job's script where it can run it. It returns what to start:
// the script, or a prelude to it.
func (r *run) writeScript() (string, error) {
	u := r.launch.GetUser()
	write := func(name string, data []byte) (string, error) {
		path := filepath.Join(r.runDir(), name)
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		if err := os.WriteFile(path, data, 0o700); err != nil {
			return "", err
		}
		return path, chown(path, u)
	}
	script, err := write(scriptFile, r.launch.GetScript())
	if err != nil {
		return "", err
	}
	if text := r.prelude(script); text != "" {
		return write("prelude_"+scriptFile, []byte(text))
	}
	return script, nil
}

// prelude is what the job's user does before the script, in the script's own process:
// open the input file, with the user's rights, and run the restore hook after a
// requeue. Empty for nothing.
func (r *run) prelude(script string) string {
	var b strings.Builder
	if in := r.launch.GetStreams().GetInput(); in != "" && in != os.DevNull {
		fmt.Fprintf(&b, "exec < %s || exit 1\n", quote(in))
	}
	if hook := r.launch.GetCheckpoint().GetRestoreHook(); hook != "" && r.key.Restart > 0 {
		b.WriteString("(\n")
		for _, kv := range append(r.hookEnv(), fmt.Sprintf("SBATCHD_CHECKPOINT_NUMBER=%d", r.read().Restored)) {
			name, value, _ := strings.Cut(kv, "=")
			fmt.Fprintf(&b, "export %s=%s\n", name, quote(value))
		}
		// Its input is not the script's.
		fmt.Fprintf(&b, "%s\n) </dev/null || exit\n", hook)
	}
	if b.Len() == 0 {
		return ""
	}
	return "#!/bin/sh\n" + b.String() + "exec " + quote(script) + " \"$@\"\n"
}

// quote makes one word of a shell command line.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
