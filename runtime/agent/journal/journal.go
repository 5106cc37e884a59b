// Package journal is the agent's small memory, a file of JSON lines: reports that are
// not acknowledged, orders that were done, attempts that are over, the highest
// leadership epoch seen. Lines are synced where forgetting would do harm, and the file
// is written anew when most of it is history.
package journal

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

const fileName = "journal.jsonl"

// compactAfter is how many lines a journal may have beyond twice what is live.
const compactAfter = 512

// entry is one line of the journal; one field of it is set.
type entry struct {
	Report  []byte   `json:"report,omitempty"` // a Report, until Ack
	Ack     uint64   `json:"ack,omitempty"`    // seq of a report that need not be sent again
	Order   *seen    `json:"order,omitempty"`
	Epoch   uint64   `json:"epoch,omitempty"`   // highest leadership epoch seen
	Release *Attempt `json:"release,omitempty"` // the attempt is over for good
	Seq     uint64   `json:"seq,omitempty"`     // last report number, kept over compaction
}

// seen is an order that was done, by its id.
type seen struct {
	ID  uint64  `json:"id"`
	Key Attempt `json:"key"`
}

// Attempt is an attempt as a map key.
type Attempt struct {
	Job     uint32 `json:"job"`
	Restart uint32 `json:"restart"`
}

// Of is the attempt that a message names.
func Of(a *agentapi.Attempt) Attempt { return Attempt{a.GetJob(), a.GetRestart()} }

// String is <job>.<restart>, the attempt's name in folders.
func (k Attempt) String() string { return fmt.Sprintf("%d.%d", k.Job, k.Restart) }

// Proto is the attempt in a message.
func (k Attempt) Proto() *agentapi.Attempt { return agentapi.NewAttempt(k.Job, k.Restart) }

// Journal is one agent's. All methods may be called from several goroutines.
type Journal struct {
	path string

	mu       sync.Mutex // protects the fields below; held over the file's writes, which order them
	file     *os.File
	lines    int
	seq      uint64
	epoch    uint64
	reports  map[uint64]*agentapi.Report
	orders   map[uint64]Attempt
	released map[uint32]uint32 // job -> highest restart that is over
}

// Open loads the journal of a folder, making it on first use.
func Open(dir string) (*Journal, error) {
	j := &Journal{
		path:    filepath.Join(dir, fileName),
		reports: map[uint64]*agentapi.Report{}, orders: map[uint64]Attempt{}, released: map[uint32]uint32{},
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
func (j *Journal) load() error {
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

func (j *Journal) apply(e entry) error {
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
func (j *Journal) compact() error {
	live := []entry{{Epoch: j.epoch, Seq: j.seq}}
	for job, restart := range j.released {
		live = append(live, entry{Release: &Attempt{job, restart - 1}})
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
	if err := attempt.WriteBytes(filepath.Dir(j.path), fileName, data, true); err != nil {
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
func (j *Journal) append(e entry, sync bool) error {
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

// Report numbers a report and keeps it until acked.
func (j *Journal) Report(r *agentapi.Report) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.Seq = j.seq + 1
	data, err := proto.Marshal(r)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return j.append(entry{Report: data}, true)
}

// Ack forgets a report. Unsynced: at worst it is sent again.
func (j *Journal) Ack(seq uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.reports[seq]; !ok {
		return nil
	}
	return j.append(entry{Ack: seq}, false)
}

// Pending are the reports to send, oldest first.
func (j *Journal) Pending() []*agentapi.Report {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pendingLocked()
}

func (j *Journal) pendingLocked() []*agentapi.Report {
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

// Done remembers that an order was carried out.
func (j *Journal) Done(id uint64, k Attempt) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.append(entry{Order: &seen{id, k}}, true)
}

// WasDone says whether an order was carried out before.
func (j *Journal) WasDone(id uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, ok := j.orders[id]
	return ok
}

// Release remembers that an attempt is over, so that it never runs again.
func (j *Journal) Release(k Attempt) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.append(entry{Release: &k}, true)
}

// IsReleased says whether an attempt, or a later one of its job, is over.
func (j *Journal) IsReleased(k Attempt) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return k.Restart < j.released[k.Job]
}

// SawEpoch takes note of a leadership epoch and says whether it is current.
func (j *Journal) SawEpoch(epoch uint64) (current bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if epoch <= j.epoch {
		return epoch == j.epoch, nil
	}
	return true, j.append(entry{Epoch: epoch}, true)
}

// Epoch is the highest leadership epoch seen.
func (j *Journal) Epoch() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.epoch
}

// Close closes the file.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Close()
}
