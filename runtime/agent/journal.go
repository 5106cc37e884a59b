package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/attempt"
)

const journalFile = "journal.jsonl"

// compactAfter is how many lines a journal may have beyond twice what is live.
const compactAfter = 512

// entry is one line of the journal; one field of it is set.
type entry struct {
	Report  []byte `json:"report,omitempty"` // a Report, until Ack
	Ack     uint64 `json:"ack,omitempty"`    // seq of a report that need not be sent again
	Order   *seen  `json:"order,omitempty"`
	Epoch   uint64 `json:"epoch,omitempty"`   // highest leadership epoch seen
	Release *key   `json:"release,omitempty"` // the attempt is over for good
	Seq     uint64 `json:"seq,omitempty"`     // last report number, kept over compaction
}

// seen is an order that was done, by its id.
type seen struct {
	ID  uint64 `json:"id"`
	Key key    `json:"key"`
}

// key is an attempt as a map key.
type key struct {
	Job     uint32 `json:"job"`
	Restart uint32 `json:"restart"`
}

func keyOf(a *agentapi.Attempt) key { return key{a.GetJob(), a.GetRestart()} }

func (k key) String() string { return fmt.Sprintf("%d.%d", k.Job, k.Restart) }

func (k key) proto() *agentapi.Attempt { return agentapi.NewAttempt(k.Job, k.Restart) }

// journal is the agent's small memory: reports that are not acknowledged, orders
// that were done, attempts that are over. A file of JSON lines, synced where
// forgetting would do harm.
type journal struct {
	path string

	mu       sync.Mutex // protects the fields below; held over the file's writes, which order them
	file     *os.File
	lines    int
	seq      uint64
	epoch    uint64
	reports  map[uint64]*agentapi.Report
	orders   map[uint64]key
	released map[uint32]uint32 // job -> highest restart that is over
}

func openJournal(dir string) (*journal, error) {
	j := &journal{
		path:    filepath.Join(dir, journalFile),
		reports: map[uint64]*agentapi.Report{}, orders: map[uint64]key{}, released: map[uint32]uint32{},
	}
	if err := j.load(); err != nil {
		return nil, fmt.Errorf("journal %s: %w", j.path, err)
	}
	if err := j.compact(); err != nil {
		return nil, fmt.Errorf("journal %s: %w", j.path, err)
	}
	return j, nil
}

// load replays the file. A last line without its end was never acted upon.
func (j *journal) load() error {
	f, err := os.Open(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil // end of file, perhaps within a line
		}
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := j.apply(e); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
}

func (j *journal) apply(e entry) error {
	j.epoch, j.seq = max(j.epoch, e.Epoch), max(j.seq, e.Seq)
	delete(j.reports, e.Ack)
	if e.Order != nil && e.Order.Key.Restart >= j.released[e.Order.Key.Job] {
		j.orders[e.Order.ID] = e.Order.Key
	}
	if e.Release != nil {
		j.released[e.Release.Job] = max(j.released[e.Release.Job], e.Release.Restart+1)
		for id, k := range j.orders {
			if k == *e.Release {
				delete(j.orders, id)
			}
		}
	}
	if e.Report != nil {
		r := &agentapi.Report{}
		if err := proto.Unmarshal(e.Report, r); err != nil {
			return err
		}
		j.reports[r.GetSeq()] = r
		j.seq = max(j.seq, r.GetSeq())
	}
	return nil
}

// compact writes a new file with what is live.
func (j *journal) compact() error {
	live := []entry{{Epoch: j.epoch, Seq: j.seq}}
	for job, restart := range j.released {
		live = append(live, entry{Release: &key{job, restart - 1}})
	}
	for id, k := range j.orders {
		live = append(live, entry{Order: &seen{id, k}})
	}
	for _, r := range j.pendingLocked() {
		data, err := proto.Marshal(r)
		if err != nil {
			return err
		}
		live = append(live, entry{Report: data})
	}
	var data []byte
	for _, e := range live {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		data = append(append(data, line...), '\n')
	}
	if err := attempt.WriteBytes(filepath.Dir(j.path), journalFile, data, true); err != nil {
		return err
	}
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if j.file != nil {
		j.file.Close()
	}
	j.file, j.lines = f, len(live)
	return nil
}

// append writes a line and applies it. With sync it is on disk on return.
func (j *journal) append(e entry, sync bool) error {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err == nil && sync {
		err = j.file.Sync()
	}
	if err == nil {
		err = j.apply(e)
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.lines++
	if j.lines > compactAfter+2*(len(j.reports)+len(j.orders)+len(j.released)) {
		return j.compact()
	}
	return nil
}

// report numbers a report and keeps it until acked.
func (j *journal) report(r *agentapi.Report) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.Seq = j.seq + 1
	data, err := proto.Marshal(r)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return j.append(entry{Report: data}, true)
}

// ack forgets a report. Unsynced: at worst it is sent again.
func (j *journal) ack(seq uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.reports[seq]; !ok {
		return nil
	}
	return j.append(entry{Ack: seq}, false)
}

// pending are the reports to send, oldest first.
func (j *journal) pending() []*agentapi.Report {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pendingLocked()
}

func (j *journal) pendingLocked() []*agentapi.Report {
	out := make([]*agentapi.Report, 0, len(j.reports))
	for _, r := range j.reports {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *agentapi.Report) int {
		if a.GetSeq() < b.GetSeq() {
			return -1
		}
		return 1
	})
	return out
}

// done remembers that an order was carried out.
func (j *journal) done(id uint64, k key) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.append(entry{Order: &seen{id, k}}, true)
}

// wasDone says whether an order was carried out before.
func (j *journal) wasDone(id uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, ok := j.orders[id]
	return ok
}

// release remembers that an attempt is over, so that it never runs again.
func (j *journal) release(k key) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.append(entry{Release: &k}, true)
}

// isReleased says whether an attempt, or a later one of its job, is over.
func (j *journal) isReleased(k key) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return k.Restart < j.released[k.Job]
}

// sawEpoch takes note of a leadership epoch and says whether it is current.
func (j *journal) sawEpoch(epoch uint64) (current bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if epoch <= j.epoch {
		return epoch == j.epoch, nil
	}
	return true, j.append(entry{Epoch: epoch}, true)
}

func (j *journal) lastEpoch() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.epoch
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Close()
}
