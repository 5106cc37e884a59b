package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"github.com/sbatchd/sbatchd/runtime/agent/journal"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/attempt"
)

// orderFile is the Launch order of an attempt, in its folder.
const orderFile = "order.pb"

// order takes one order. What takes time happens in the attempt's own goroutine;
// its acknowledgement follows when it is done or safely noted.
//
// An error ends the session: the controller repeats the order on the next one.
func (a *Agent) order(s *session, o *agentapi.Order) error {
	refuse := func(why string) {
		s.send(ackMessage(o.GetId(), why))
	}
	if current, err := a.journal.SawEpoch(o.GetKey().GetEpoch()); err != nil {
		return err
	} else if !current && o.GetShutdown() == nil {
		refuse("the order is of an older leadership")
		return nil
	}
	k := journal.Of(o.GetKey().Attempt())
	if a.journal.WasDone(o.GetId()) {
		refuse("")
		return nil
	}
	switch w := o.GetWhat().(type) {
	case *agentapi.Order_Launch:
		err := a.launch(k, o)
		var no refusal
		if err != nil && !errors.As(err, &no) {
			return fmt.Errorf("launch job %s: %w", k, err)
		}
		refuse(string(no))
	case *agentapi.Order_Shutdown:
		refuse("")
		a.shutdown(w.Shutdown)
	default:
		r := a.find(k)
		if r == nil {
			if o.GetRelease() != nil {
				refuse("")
			} else {
				refuse("no such job on this node")
			}
			return nil
		}
		return r.take(o)
	}
	return nil
}

// refusal is an order that must not come again.
type refusal string

func (r refusal) Error() string { return string(r) }

// launch notes a Launch order and starts its goroutine. Repeated, it does nothing.
func (a *Agent) launch(k journal.Attempt, o *agentapi.Order) error {
	if a.find(k) != nil {
		return nil
	}
	if a.journal.IsReleased(k) {
		return refusal("this run of the job is over")
	}
	for _, r := range a.attempts() {
		if r.key.Job == k.Job && r.key.Restart > k.Restart {
			return refusal("a later run of the job is here")
		}
	}
	dir := filepath.Join(a.jobsDir(), k.String())
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	data, err := proto.Marshal(o)
	if err != nil {
		return err
	}
	// Not synced: if the machine goes down the job is lost, order or not.
	if err := attempt.WriteBytes(dir, orderFile, data, false); err != nil {
		return err
	}
	a.start(a.newRun(k, o, dir))
	return nil
}

func readOrder(dir string) (*agentapi.Order, error) {
	data, err := os.ReadFile(filepath.Join(dir, orderFile))
	if err != nil {
		return nil, err
	}
	o := &agentapi.Order{}
	if err := proto.Unmarshal(data, o); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, orderFile), err)
	}
	return o, nil
}

func ackMessage(id uint64, refused string) *agentapi.AgentMessage {
	return &agentapi.AgentMessage{Body: &agentapi.AgentMessage_OrderAck{OrderAck: &agentapi.OrderAck{Id: id, Refused: refused}}}
}

// ack tells the controller that an order is done, once that is on disk.
func (a *Agent) ack(o *agentapi.Order, refused string) {
	if refused == "" {
		if err := a.journal.Done(o.GetId(), journal.Of(o.GetKey().Attempt())); err != nil {
			a.log.Error("order is done but not noted", "err", err)
			return
		}
	}
	if s := a.current(); s != nil {
		s.send(ackMessage(o.GetId(), refused))
	}
}

// shutdown ends the agent, by order.
func (a *Agent) shutdown(s *agentapi.Shutdown) {
	a.log.Info("shutdown ordered", "reason", s.GetReason())
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.ended:
	default:
		close(a.ended)
	}
}
