package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
)

// told opens a journal and lists what it still has to tell.
func told(t *testing.T, dir string) (*Journal, []uint64) {
	t.Helper()
	j, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var seqs []uint64
	for _, r := range j.Pending() {
		seqs = append(seqs, r.GetSeq())
	}
	return j, seqs
}

func TestJournal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, _ := told(t, dir)
	for job := range uint32(4) {
		if err := j.Report(&agentapi.Report{Key: &agentapi.Key{Job: job}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, seq := range []uint64{2, 2, 9} { // once more, and one never sent
		if err := j.Ack(seq); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Done(77, Attempt{5, 0}); err != nil {
		t.Fatal(err)
	}
	if current, err := j.SawEpoch(3); err != nil || !current {
		t.Errorf("epoch 3: %v %v", current, err)
	}
	if err := j.Release(Attempt{6, 2}); err != nil {
		t.Fatal(err)
	}

	// A line cut short by a crash was never acted upon.
	f, err := os.OpenFile(filepath.Join(dir, fileName), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"ack":1`); err != nil {
		t.Fatal(err)
	}
	f.Close()

	for range 2 { // the second time after compaction
		j, seqs := told(t, dir)
		if d := cmp.Diff([]uint64{1, 3, 4}, seqs); d != "" {
			t.Error(d)
		}
		if !j.WasDone(77) || j.WasDone(78) {
			t.Error("orders are not remembered")
		}
		if current, err := j.SawEpoch(2); err != nil || current {
			t.Errorf("epoch 2 after 3: %v %v", current, err)
		}
		if !j.IsReleased(Attempt{6, 2}) || !j.IsReleased(Attempt{6, 0}) || j.IsReleased(Attempt{6, 3}) || j.IsReleased(Attempt{7, 0}) {
			t.Error("released attempts are not remembered")
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	j, _ = told(t, dir)
	if err := j.Report(&agentapi.Report{}); err != nil {
		t.Fatal(err)
	}
	if p := j.Pending(); p[len(p)-1].GetSeq() != 5 {
		t.Errorf("the next number is %d, want 5", p[len(p)-1].GetSeq())
	}
}

func TestJournalStaysSmall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, _ := told(t, dir)
	for i := range 400 {
		if err := j.Report(&agentapi.Report{Event: &agentapi.Report_Lost{Lost: &agentapi.Lost{Message: fmt.Sprint(i)}}}); err != nil {
			t.Fatal(err)
		}
		if err := j.Ack(uint64(i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	if j.lines > compactAfter+1 {
		t.Errorf("%d lines for nothing to remember", j.lines)
	}
}
