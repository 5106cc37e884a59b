package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

var (
	root  = auth.Identity{User: "root", Role: auth.Admin}
	guest = auth.Identity{User: "alice", UID: 1000, GID: 1000, Role: auth.Guest}
	thief = auth.Identity{User: "mallory", UID: 1002, Role: auth.Guest}
)

// TestRoles holds the table of role x command from outside: who may do what to
// a job of alice's, to nodes and to the config.
func TestRoles(t *testing.T) {
	five, prio := uint32(5), uint32(7)
	type command func(ctx context.Context, h *house, who auth.Identity, id uint32) error
	onJob := map[string]command{
		"cancel": func(ctx context.Context, h *house, who auth.Identity, id uint32) error {
			return h.Cancel(ctx, who, job.RefTo(id), 0, false)
		},
		"hold": func(ctx context.Context, h *house, who auth.Identity, id uint32) error {
			return h.Hold(ctx, who, job.RefTo(id))
		},
		"release": func(ctx context.Context, h *house, who auth.Identity, id uint32) error {
			return h.Release(ctx, who, job.RefTo(id))
		},
		"update": func(ctx context.Context, h *house, who auth.Identity, id uint32) error {
			return h.Update(ctx, who, job.RefTo(id), queue.Change{TimeLimit: &five})
		},
	}
	others := map[string]command{
		"priority": func(ctx context.Context, h *house, who auth.Identity, id uint32) error {
			return h.Update(ctx, who, job.RefTo(id), queue.Change{Priority: &prio})
		},
		"node": func(ctx context.Context, h *house, who auth.Identity, _ uint32) error {
			return h.UpdateNode(ctx, who, "ws1", queue.NodeChange{State: "DRAIN", Reason: "x"})
		},
		"reconfigure": func(ctx context.Context, h *house, who auth.Identity, _ uint32) error {
			return h.Reconfigure(ctx, who, h.Snapshot().Config)
		},
	}
	people := []struct {
		name        string
		who         auth.Identity
		own, others bool
	}{
		{"its owner", alice, true, false},
		{"its owner in a job", guest, true, false},
		{"another user", bob, false, false},
		{"another user in a job", thief, false, false},
		{"an admin", root, true, true},
	}
	inBubble(t, longConf, func(h *house) {
		for _, p := range people {
			check := func(what string, do command, allowed bool) {
				id := h.submit(in(func(s *queue.Submission) { s.Hold = true }))
				denied := h.events("Denied")
				err := do(h.t.Context(), h, p.who, id)
				if allowed && err != nil || !allowed && !errors.Is(err, errno.AccessDenied) && !errors.Is(err, errno.UserIDMissing) && !errors.Is(err, errno.JobHeld) {
					h.t.Errorf("%s by %s: %v, allowed is %t", what, p.name, err, allowed)
				}
				if got := h.events("Denied") - denied; got != map[bool]int{true: 0, false: 1}[allowed] {
					h.t.Errorf("%s by %s: %d denials in the story", what, p.name, got)
				}
				if !allowed {
					h.want(id, "PENDING", job.ReasonHeldUser)
				}
			}
			for what, do := range onJob {
				check(what, do, p.own)
			}
			for what, do := range others {
				check(what, do, p.others)
			}
		}
	})
}

func TestAdminActsOnOthersAreAudited(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(in(func(s *queue.Submission) { s.Hold = true }))
		h.must(h.Cancel(h.t.Context(), root, job.RefTo(id), 0, false))
		if n := h.events("AdminAct"); n != 1 {
			h.t.Errorf("%d admin acts in the story", n)
		}
	})
}

// TestAdminsHold: no command of the owner's turns an admin's hold into one that
// he may release.
func TestAdminsHold(t *testing.T) {
	zero := uint32(0)
	for name, trick := range map[string]func(h *house, id uint32) error{
		"release": func(h *house, id uint32) error { return h.Release(h.t.Context(), alice, job.RefTo(id)) },
		"hold":    func(h *house, id uint32) error { return h.Hold(h.t.Context(), alice, job.RefTo(id)) },
		"priority of 0": func(h *house, id uint32) error {
			return h.Update(h.t.Context(), alice, job.RefTo(id), queue.Change{Priority: &zero})
		},
		"nice": func(h *house, id uint32) error {
			nice := int32(5)
			return h.Update(h.t.Context(), alice, job.RefTo(id), queue.Change{Nice: &nice})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, longConf, func(h *house) {
				id := h.submit(in(func(s *queue.Submission) { s.Spec.Begin = time.Now().Add(time.Hour) }))
				h.must(h.Hold(h.t.Context(), root, job.RefTo(id)))
				if err := trick(h, id); err != nil && !errors.Is(err, errno.AccessDenied) {
					h.t.Fatal(err)
				}
				if err := h.Release(h.t.Context(), alice, job.RefTo(id)); !errors.Is(err, errno.AccessDenied) {
					h.t.Errorf("released: %v", err)
				}
				h.want(id, "PENDING", job.ReasonHeldAdmin)
				h.must(h.Release(h.t.Context(), root, job.RefTo(id)))
				h.pass(2 * time.Second)
				h.want(id, "PENDING", job.ReasonBeginTime)
			})
		})
	}
}
