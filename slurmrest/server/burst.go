package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/sbatchd/store"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// answer writes one of sbatchd's own answers.
func (c *call) answer(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		c.refuse(err, "", "")
		return
	}
	c.header(http.StatusOK)
	c.w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	c.w.Write(b) //nolint:errcheck // the client is gone
}

// may reports whether the caller may read a job's script, output and bill.
func (c *call) may(j *job.Job) bool { return queue.MaySee(c.who, j) }

// unsupported answers where a part of the controller isn't there.
func (c *call) unsupported() { c.refuse(errno.NotSupported, "", "") }

// getPools answers GET /pools.
func getPools(c *call) {
	s := c.s.cfg.Controller.Snapshot()
	out := wire.Pools{Pools: []wire.Pool{}}
	for _, p := range s.Config.Pools {
		pool := poolOf(s, p)
		if c.s.cfg.Market != nil {
			pool.DeadMan = c.s.cfg.Market.DeadMan(p.Name)
		}
		out.Pools = append(out.Pools, pool)
	}
	c.answer(out)
}

func poolOf(s *state.State, p *partitions.Pool) wire.Pool {
	w := wire.Pool{
		Name: p.Name, Provider: p.Provider.Name, Type: p.Provider.Type, State: p.State, Capacity: string(p.Capacity),
		Trust: string(p.Trust), Runtime: string(p.Runtime), Workdir: string(p.Workdir), AgentLink: string(p.AgentLink),
		Gres: tres.FormatGresRange(p.Gres), CPUs: p.CPUs, MemoryMiB: int64(p.RealMemory),
		MinNodes: p.MinNodes, MaxNodes: p.MaxNodes, Partitions: []string{},
	}
	if p.MaxPrice != (partitions.Money{}) {
		w.MaxPrice = p.MaxPrice.String()
	}
	for _, part := range s.Config.Partitions {
		for _, q := range part.Pools {
			if q.Name == p.Name {
				w.Partitions = append(w.Partitions, part.Name)
			}
		}
	}
	for n := range s.Nodes() {
		if n.Pool != p.Name {
			continue
		}
		switch {
		case n.Down:
			w.Down++
		case n.Flags.Has(node.PoweringUp):
			w.PoweringUp++
		case n.Flags.Has(node.PoweringDown):
			w.PoweringDown++
		case n.Flags.Has(node.PoweredDown):
			w.PoweredDown++
		default:
			w.Up++
		}
	}
	if st, ok := s.Pools[p.Name]; ok {
		w.Until, w.Why = st.Until, st.Why
	}
	return w
}

// guest refuses what a process in a job has no business with.
func (c *call) guest() bool {
	if c.who.Role == auth.Guest {
		c.refuse(errno.AccessDenied, "", "")
		return true
	}
	return false
}

// getOffers answers GET /offers?pool=NAME.
func getOffers(c *call) {
	if c.guest() {
		return
	}
	if c.s.cfg.Market == nil {
		c.unsupported()
		return
	}
	pool := c.r.URL.Query().Get("pool")
	if pool != "" && c.s.cfg.Controller.Snapshot().Config.Pool(pool) == nil {
		c.refuse(&fault{errno.DataPathNotFound, "Unable to find pool " + pool, "#/pool/"}, "", "")
		return
	}
	out, err := c.s.cfg.Market.Offers(c.r.Context(), pool)
	if err != nil {
		c.refuse(err, "Unable to ask for offers", "")
		return
	}
	c.answer(out)
}

// getLeaks answers GET /leaks, to administrators.
func getLeaks(c *call) {
	switch {
	case c.s.cfg.Market == nil:
		c.unsupported()
	case c.who.Role != auth.Admin:
		c.refuse(errno.AccessDenied, "", "")
	default:
		out, err := c.s.cfg.Market.Leaks(c.r.Context())
		if err != nil {
			c.refuse(err, "Unable to list instances", "")
			return
		}
		c.answer(out)
	}
}

// record finds a job in accounting, where it stays after it left memory.
func (c *call) jobRecord() (store.JobRecord, bool) {
	t, ok := c.target()
	if !ok {
		return store.JobRecord{}, false
	}
	records, err := c.s.cfg.Controller.Records(c.r.Context(), store.JobQuery{IDs: []uint32{t.ID}, Arrays: []uint32{t.ID}})
	if err != nil {
		c.refuse(err, "Unable to query accounting", "")
		return store.JobRecord{}, false
	}
	for _, r := range records {
		if !t.match(r.Job) {
			continue
		}
		if !c.may(r.Job) {
			c.refuse(errno.AccessDenied, "", "")
			return store.JobRecord{}, false
		}
		return r, true
	}
	c.refuse(errno.InvalidJobID, "", "")
	return store.JobRecord{}, false
}

// getBill answers GET /bill/{job_id}.
func getBill(c *call) {
	if c.s.cfg.Bill == nil {
		c.unsupported()
		return
	}
	r, ok := c.jobRecord()
	if !ok {
		return
	}
	var tags []string
	for _, run := range r.Runs {
		for _, h := range run.Hosts {
			if h.Instance != "" {
				tags = append(tags, h.Instance)
			}
		}
	}
	ledger, err := c.s.cfg.Controller.Ledger(c.r.Context(), tags)
	if err != nil {
		c.refuse(err, "Unable to read the ledger", "")
		return
	}
	c.answer(c.s.cfg.Bill(r, ledger))
}

// getCheckpoints answers GET /checkpoints/{job_id}.
func getCheckpoints(c *call) {
	if c.s.cfg.Checkpoints == nil {
		c.unsupported()
		return
	}
	r, ok := c.jobRecord()
	if !ok {
		return
	}
	list, err := c.s.cfg.Checkpoints.List(c.r.Context(), r.Job.ID.Raw)
	if err != nil {
		c.refuse(err, "Unable to list checkpoints", "")
		return
	}
	if list == nil {
		list = []wire.Checkpoint{}
	}
	c.answer(wire.Checkpoints{JobID: r.Job.ID.Raw, Checkpoints: list})
}

// getExplain answers GET /explain/{job_id}.
func getExplain(c *call) {
	t, ok := c.target()
	if !ok {
		return
	}
	s := c.s.cfg.Controller.Snapshot()
	found := t.find(s)
	if len(found) == 0 {
		c.refuse(errno.InvalidJobID, "", "")
		return
	}
	j := found[0]
	if !c.may(j) {
		c.refuse(errno.AccessDenied, "", "")
		return
	}
	out := wire.Explain{
		JobID: j.ID.Raw, State: j.ShownState(), Reason: j.Reason.String(), Detail: j.Detail, Pools: []wire.ExplainPool{},
	}
	if c.s.cfg.Explain != nil {
		out.Pools = append(out.Pools, c.s.cfg.Explain(s, j.ID.Raw, c.s.cfg.Now())...)
	}
	c.answer(out)
}

// getScript answers GET /script/{job_id} with the batch script as text.
func getScript(c *call) {
	r, ok := c.jobRecord()
	if !ok {
		return
	}
	text, err := c.s.cfg.Controller.Blob(c.r.Context(), r.Job.Spec.ScriptHash)
	if err != nil {
		c.refuse(err, "Unable to read the script", "")
		return
	}
	c.w.Header().Set("Content-Type", "text/plain")
	c.w.Write(text) //nolint:errcheck // the client is gone
}

// getLogs answers GET /logs/{job_id}?stream=out|err&restart=N&follow=1 with the
// output itself, as it comes.
func getLogs(c *call) {
	if c.s.cfg.Logs == nil {
		c.unsupported()
		return
	}
	r, ok := c.jobRecord()
	if !ok {
		return
	}
	q := c.r.URL.Query()
	restart := r.Job.Restarts
	if r.Job.State == job.Pending && restart > 0 && len(r.Runs) > 0 {
		restart = r.Runs[len(r.Runs)-1].Restart // what the last run wrote
	}
	if text := q.Get("restart"); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			c.refuse(&fault{errno.DataConvFailed, fmt.Sprintf("Expected integer but got %q", text), "#/restart/"}, "", "")
			return
		}
		restart = uint32(n)
	}
	stream := or(strings.ToLower(q.Get("stream")), "out")
	if stream != "out" && stream != "err" {
		c.refuse(&fault{errno.DataParseBadInput, "stream is out or err", "#/stream/"}, "", "")
		return
	}
	log, err := c.s.cfg.Logs.Log(c.r.Context(), r.Job.ID.Raw, restart, stream, flagSet(q, "follow"))
	if err != nil {
		c.refuse(err, "Unable to read the output", "")
		return
	}
	defer log.Close() //nolint:errcheck // only read
	c.w.Header().Set("Content-Type", "application/octet-stream")
	c.w.WriteHeader(http.StatusOK)
	if err := copyFlushing(c.w, log); err != nil {
		c.s.cfg.Log.Debug("log ended early", "job", r.Job.ID.Raw, "err", err)
	}
}

// copyFlushing copies and sends on what has come without waiting for more.
func copyFlushing(w http.ResponseWriter, r io.Reader) error {
	flush := http.NewResponseController(w)
	buf := make([]byte, flushSize)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if err := flush.Flush(); err != nil {
				return err
			}
		}
		if err == io.EOF { //nolint:errorlint // io.Reader's own word
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// json reads the body of one of sbatchd's own requests.
func (c *call) json(into any) bool {
	body, ok := c.body()
	if !ok {
		return false
	}
	if len(body) == 0 {
		return true
	}
	if err := json.Unmarshal(body, into); err != nil {
		text(c.w, errno.RESTFailParsing)
		return false
	}
	return true
}

// postReclaim answers POST /reclaim/{node_name}.
func postReclaim(c *call) {
	var req wire.ReclaimRequest
	if !c.json(&req) {
		return
	}
	name := mux.Vars(c.r)["node_name"]
	notice := time.Duration(max(0, req.Notice)) * time.Second
	if err := c.s.cfg.Controller.Reclaim(c.r.Context(), c.who, name, notice); err != nil {
		c.refuse(err, "Unable to reclaim node "+name, "")
		return
	}
	c.reply(nil)
}

// postToken answers POST /token (scontrol token).
func postToken(c *call) {
	var req wire.TokenRequest
	if !c.json(&req) {
		return
	}
	lifespan := time.Duration(min(req.Lifespan, int64(auth.Infinite/time.Second))) * time.Second
	if req.Lifespan < 0 {
		lifespan = auth.Infinite
	}
	token, err := c.s.auth.Load().Keys().Create(c.who, req.User, lifespan, c.s.cfg.Now())
	if err != nil {
		c.refuse(err, "Unable to make a token", "")
		return
	}
	c.answer(wire.Token{Token: token})
}

// getConfig answers GET /config (scontrol show config).
func getConfig(c *call) {
	if c.guest() {
		return
	}
	cfg := c.s.cfg.Controller.Snapshot().Config
	c.answer(wire.ConfigValues{Path: cfg.Path, Time: c.s.cfg.Now(), Values: cfg.Settings()})
}
