// Package slinky_test drives a real sbatchd with a Slurm client that nobody here
// wrote, github.com/SlinkyProject/slurm-client: submit, list, get, update and
// delete of jobs, nodes and partitions, in every API version that it speaks, and
// the faults that its own fake has. It is a module of its own, so that the
// client's dependencies stay out of sbatchd's.
package slinky_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	v0041 "github.com/SlinkyProject/slurm-client/api/v0041"
	v0042 "github.com/SlinkyProject/slurm-client/api/v0042"
	v0043 "github.com/SlinkyProject/slurm-client/api/v0043"
	v0044 "github.com/SlinkyProject/slurm-client/api/v0044"
	"github.com/SlinkyProject/slurm-client/pkg/client"
	"github.com/SlinkyProject/slurm-client/pkg/object"
	"github.com/SlinkyProject/slurm-client/pkg/types"

	"github.com/sbatchd/sbatchd/tests/rig"
)

// site is a controller with one pool; its nodes are processes of this machine.
var (
	site  *rig.Controller
	admin *rig.User
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	r, err := rig.New("slinky")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	admin = r.Admin()
	site, err = r.Controller(context.Background(), rig.Config{
		Slurm: "SuspendTime=300\nPartitionName=main Pools=here Default=YES MaxTime=60 DefaultTime=10\nPartitionName=off Pools=here State=DOWN\n",
		Pools: "ProviderName=l Type=local Trust=own\n" +
			"PoolName=here Provider=l CPUs=4 RealMemory=2000 MaxNodes=2 Runtime=process Workdir=shared Feature=slow\n",
	})
	code := 1
	if err == nil {
		code = m.Run()
		if err := site.GiveBack(context.Background(), time.Minute); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := r.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// token makes a token of root's; the client sends no user's name beside it.
func token(t *testing.T) string {
	t.Helper()
	out, err := site.As(t.Context(), rig.Cmd{User: admin}, "scontrol", "token", "lifespan=3600")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(strings.TrimSpace(out.Stdout), "SLURM_JWT=")
}

func connect(t *testing.T, token string) client.Client {
	t.Helper()
	// A cache would hide what the server answers.
	c, err := client.NewClient(&client.Config{Server: site.URL, AuthToken: token}, &client.ClientOptions{DisableFor: []object.Object{
		&types.V0041JobInfo{}, &types.V0041Node{}, &types.V0041PartitionInfo{}, &types.V0041ControllerPing{}, &types.V0041Stats{},
		&types.V0042JobInfo{}, &types.V0042Node{}, &types.V0042PartitionInfo{}, &types.V0042ControllerPing{}, &types.V0042Stats{},
		&types.V0043JobInfo{}, &types.V0043Node{}, &types.V0043PartitionInfo{}, &types.V0043ControllerPing{}, &types.V0043Stats{},
		&types.V0044JobInfo{}, &types.V0044Node{}, &types.V0044PartitionInfo{}, &types.V0044ControllerPing{}, &types.V0044Stats{},
		&types.V0041Reconfigure{}, &types.V0042Reconfigure{}, &types.V0043Reconfigure{}, &types.V0044Reconfigure{}, &types.V0044NodeResourceLayout{},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const script = "#!/bin/sh\nsleep 60\n"

var (
	environment = []string{"PATH=/bin:/usr/bin"}
	folder      = "/tmp"
	held        = true
	released    = false
	name        = "slinky"
	comment     = "from a client of others"
)

// version is what the tests do in one API version.
type version struct {
	name    string
	submit  any
	update  any
	release any
	drain   any
	job     func() object.Object
	byID    func(id int32) object.Object
	jobs    object.ObjectList
	node    object.Object
	nodes   object.ObjectList
	parts   object.ObjectList
	part    object.Object
	pings   object.ObjectList
	stats   object.ObjectList
	comment func(object.Object) string
}

func versions() []version {
	return []version{
		{
			name: "v0.0.41",
			submit: v0041.V0041JobSubmitReq{Script: ptr(script), Job: &v0041.V0041JobDescMsg{
				Name: &name, Hold: &held, Environment: &environment, CurrentWorkingDirectory: &folder,
			}},
			update: v0041.V0041JobDescMsg{Comment: &comment}, release: v0041.V0041JobDescMsg{Hold: &released},
			drain: v0041.V0041UpdateNodeMsg{State: &[]v0041.V0041UpdateNodeMsgState{v0041.V0041UpdateNodeMsgStateDRAIN}, Reason: &comment},
			job:   func() object.Object { return &types.V0041JobInfo{} },
			byID:  func(id int32) object.Object { return &types.V0041JobInfo{V0041JobInfo: v0041.V0041JobInfo{JobId: &id}} },
			jobs:  &types.V0041JobInfoList{}, node: &types.V0041Node{}, nodes: &types.V0041NodeList{}, parts: &types.V0041PartitionInfoList{},
			part: &types.V0041PartitionInfo{}, pings: &types.V0041ControllerPingList{}, stats: &types.V0041StatsList{},
			comment: func(o object.Object) string { return *o.(*types.V0041JobInfo).Comment },
		},
		{
			name: "v0.0.42",
			submit: v0042.V0042JobSubmitReq{Script: ptr(script), Job: &v0042.V0042JobDescMsg{
				Name: &name, Hold: &held, Environment: &environment, CurrentWorkingDirectory: &folder,
			}},
			update: v0042.V0042JobDescMsg{Comment: &comment}, release: v0042.V0042JobDescMsg{Hold: &released},
			drain: v0042.V0042UpdateNodeMsg{State: &[]v0042.V0042UpdateNodeMsgState{v0042.V0042UpdateNodeMsgStateDRAIN}, Reason: &comment},
			job:   func() object.Object { return &types.V0042JobInfo{} },
			byID:  func(id int32) object.Object { return &types.V0042JobInfo{V0042JobInfo: v0042.V0042JobInfo{JobId: &id}} },
			jobs:  &types.V0042JobInfoList{}, node: &types.V0042Node{}, nodes: &types.V0042NodeList{}, parts: &types.V0042PartitionInfoList{},
			part: &types.V0042PartitionInfo{}, pings: &types.V0042ControllerPingList{}, stats: &types.V0042StatsList{},
			comment: func(o object.Object) string { return *o.(*types.V0042JobInfo).Comment },
		},
		{
			name: "v0.0.43",
			submit: v0043.V0043JobSubmitReq{Script: ptr(script), Job: &v0043.V0043JobDescMsg{
				Name: &name, Hold: &held, Environment: &environment, CurrentWorkingDirectory: &folder,
			}},
			update: v0043.V0043JobDescMsg{Comment: &comment}, release: v0043.V0043JobDescMsg{Hold: &released},
			drain: v0043.V0043UpdateNodeMsg{State: &[]v0043.V0043UpdateNodeMsgState{v0043.V0043UpdateNodeMsgStateDRAIN}, Reason: &comment},
			job:   func() object.Object { return &types.V0043JobInfo{} },
			byID:  func(id int32) object.Object { return &types.V0043JobInfo{V0043JobInfo: v0043.V0043JobInfo{JobId: &id}} },
			jobs:  &types.V0043JobInfoList{}, node: &types.V0043Node{}, nodes: &types.V0043NodeList{}, parts: &types.V0043PartitionInfoList{},
			part: &types.V0043PartitionInfo{}, pings: &types.V0043ControllerPingList{}, stats: &types.V0043StatsList{},
			comment: func(o object.Object) string { return *o.(*types.V0043JobInfo).Comment },
		},
		{
			name: "v0.0.44",
			submit: v0044.V0044JobSubmitReq{Script: ptr(script), Job: &v0044.V0044JobDescMsg{
				Name: &name, Hold: &held, Environment: &environment, CurrentWorkingDirectory: &folder,
			}},
			update: v0044.V0044JobDescMsg{Comment: &comment}, release: v0044.V0044JobDescMsg{Hold: &released},
			drain: v0044.V0044UpdateNodeMsg{State: &[]v0044.V0044UpdateNodeMsgState{v0044.V0044UpdateNodeMsgStateDRAIN}, Reason: &comment},
			job:   func() object.Object { return &types.V0044JobInfo{} },
			byID:  func(id int32) object.Object { return &types.V0044JobInfo{V0044JobInfo: v0044.V0044JobInfo{JobId: &id}} },
			jobs:  &types.V0044JobInfoList{}, node: &types.V0044Node{}, nodes: &types.V0044NodeList{}, parts: &types.V0044PartitionInfoList{},
			part: &types.V0044PartitionInfo{}, pings: &types.V0044ControllerPingList{}, stats: &types.V0044StatsList{},
			comment: func(o object.Object) string { return *o.(*types.V0044JobInfo).Comment },
		},
	}
}

func ptr[T any](v T) *T { return &v }

func TestJobs(t *testing.T) {
	c := connect(t, token(t))
	for _, v := range versions() {
		t.Run(v.name, func(t *testing.T) {
			ctx := t.Context()
			made := v.job()
			if err := c.Create(ctx, made, v.submit); err != nil {
				t.Fatal("create:", err)
			}
			key := made.GetKey()
			if key == "0" {
				t.Fatalf("no id: %+v", made)
			}
			if err := c.Update(ctx, made, v.update); err != nil {
				t.Fatal("update:", err)
			}
			got := v.job()
			if err := c.Get(ctx, key, got); err != nil || v.comment(got) != comment || got.GetKey() != key {
				t.Fatalf("get: %v, %+v", err, got)
			}
			if err := c.List(ctx, v.jobs); err != nil || !has(v.jobs, key) {
				t.Fatalf("list: %v, %+v", err, v.jobs)
			}
			if err := c.Update(ctx, made, v.release); err != nil {
				t.Fatal("release:", err)
			}
			if err := c.Delete(ctx, made); err != nil {
				t.Fatal("delete:", err)
			}
		})
	}
}

func has(list object.ObjectList, key object.ObjectKey) bool {
	for _, o := range list.GetItems() {
		if o.GetKey() == key {
			return true
		}
	}
	return false
}

func TestNodesPartitionsAndController(t *testing.T) {
	c := connect(t, token(t))
	for _, v := range versions() {
		t.Run(v.name, func(t *testing.T) {
			ctx := t.Context()
			if err := c.List(ctx, v.nodes); err != nil || !has(v.nodes, "here-1") || !has(v.nodes, "here-2") {
				t.Fatalf("nodes: %v, %+v", err, v.nodes)
			}
			if err := c.Get(ctx, "here-2", v.node); err != nil || v.node.GetKey() != "here-2" {
				t.Fatalf("node: %v, %+v", err, v.node)
			}
			if err := c.Update(ctx, v.node, v.drain); err != nil {
				t.Fatal("drain:", err)
			}
			if err := c.List(ctx, v.parts); err != nil || !has(v.parts, "main") || !has(v.parts, "off") {
				t.Fatalf("partitions: %v, %+v", err, v.parts)
			}
			if err := c.Get(ctx, "main", v.part); err != nil || v.part.GetKey() != "main" {
				t.Fatalf("partition: %v, %+v", err, v.part)
			}
			if err := c.List(ctx, v.pings); err != nil || len(v.pings.GetItems()) != 1 {
				t.Fatalf("ping: %v, %+v", err, v.pings)
			}
			if err := c.List(ctx, v.stats); err != nil || len(v.stats.GetItems()) != 1 {
				t.Fatalf("diag: %v, %+v", err, v.stats)
			}
		})
	}
}

// TestFaults has the faults that the client's own fake can be told to have: what
// isn't there, what may not be done, what can't be used, no controller at all.
func TestFaults(t *testing.T) {
	good := connect(t, token(t))
	for _, v := range versions() {
		t.Run(v.name, func(t *testing.T) {
			ctx := t.Context()
			for _, tt := range []struct {
				what, want string
				err        error
			}{
				{"a job that isn't there", http.StatusText(http.StatusNotFound), good.Get(ctx, "999999", v.job())},
				{"an update of one", http.StatusText(http.StatusNotFound), good.Update(ctx, v.byID(999999), v.update)},
				{"a partition that isn't there", http.StatusText(http.StatusNotFound), good.Get(ctx, "nosuch", v.part)},
				{"a node that isn't there", http.StatusText(http.StatusNotFound), good.Get(ctx, "nosuch", v.node)},
				{"a token that is none", http.StatusText(http.StatusNetworkAuthenticationRequired), connect(t, "bogus").List(ctx, v.jobs)},
				{"a request of another kind", "expected req to be", good.Create(ctx, v.job(), 7)},
			} {
				if tt.err == nil || !strings.Contains(tt.err.Error(), tt.want) {
					t.Errorf("%s: %v, want %s", tt.what, tt.err, tt.want)
				}
			}
		})
	}
	dead, err := client.NewClient(&client.Config{Server: "http://127.0.0.1:1", AuthToken: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.List(t.Context(), &types.V0044ReconfigureList{}); err == nil {
		t.Error("a server that isn't there answers")
	}
}

// TestCacheFollowsTheServer uses the client as an operator does, with its
// informers: what is submitted appears in its cache, what ends changes there.
func TestCacheFollowsTheServer(t *testing.T) {
	c, err := client.NewClient(&client.Config{Server: site.URL, AuthToken: token(t)}, &client.ClientOptions{
		EnableFor: []object.Object{&types.V0044JobInfo{}}, CacheSyncPeriod: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go c.Start(ctx)
	defer c.Stop()
	job := &types.V0044JobInfo{}
	if err := connect(t, token(t)).Create(ctx, job, versions()[3].submit); err != nil {
		t.Fatal(err)
	}
	for {
		got := &types.V0044JobInfo{}
		if err := c.Get(ctx, job.GetKey(), got); err == nil && got.GetStateAsSet().Has(v0044.V0044JobInfoJobStatePENDING) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("the job never came into the client's cache")
		case <-time.After(100 * time.Millisecond):
		}
	}
}
