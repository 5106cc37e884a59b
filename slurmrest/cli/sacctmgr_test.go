package cli_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSacctmgrSession runs a session that was recorded on Slurm 26.05: line for
// line the same must come out. A line ends in <y where the question is answered
// with yes; everywhere else the answer would be no.
func TestSacctmgrSession(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.people()
	data, err := os.ReadFile("testdata/sacctmgr.txt")
	if err != nil {
		t.Fatal(err)
	}
	steps := strings.Split("\n"+string(data), "\n$ ")[1:]
	if len(steps) < 100 {
		t.Fatalf("%d steps", len(steps))
	}
	for _, step := range steps {
		line, want, _ := strings.Cut(step, "\n")
		args, stdin := strings.Fields(line), "n\n"
		if args[len(args)-1] == "<y" {
			args, stdin = args[:len(args)-1], "y\n"
		}
		out, status := h.say(stdin, args...)
		got := fmt.Sprintf("%s[rc=%d]", out, status)
		if diff := cmp.Diff(strings.TrimRight(want, "\n"), got); diff != "" {
			t.Errorf("%s (-Slurm +sbatchd)\n%s", line, diff)
		}
	}
}

func TestSacctmgrAsUser(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.people()
	h.uid = 1000
	for _, tt := range []struct {
		line, want string
		status     int
	}{
		{"-i add account h3test", " error: Only admins/operators/coordinators can add accounts\n", 1},
		{"-i add user h3u account=physics", " error: Problem adding user associations: Access/permission denied (Only admins/operators/coordinators can add accounts)\n", 1},
		{"-i add qos h3q", " Problem adding QOS: Access/permission denied\n Adding QOS(s)\n  h3q\n Settings\n  Description    = h3q\n", 1},
		{"-i modify user alice set adminlevel=admin", "sacctmgr: error: You can only change your own default account, default wckey nothing else\n Error with request: Access/permission denied\n Modified users...\n", 1},
		{"-i modify user alice set defaultaccount=physics", " Modified users...\n  alice\n", 0},
		{"-i modify user alice set defaultaccount=root", " Modified users...\n Can't modify because these users aren't associated with new default account 'root'...\n  U = alice C = base\n", 1},
		{"-i modify qos normal set priority=3", "sacctmgr: error: Your user doesn't have privilege to perform this action\n Error with request: Access/permission denied\n", 1},
		{"-i delete user alice", "sacctmgr: error: Your user doesn't have privilege to perform this action\n Error with request: Access/permission denied\n", 1},
		{"-i delete account physics", "sacctmgr: error: Your user doesn't have privilege to perform this action\n Error with request: Access/permission denied\n", 1},
		{"-i add coordinator account=physics user=alice", " Problem adding coordinator: Access/permission denied\n Adding Coordinator User(s)\n  alice\n To Account(s) and all sub-accounts\n  physics\n", 1},
		{"dump base file=x.cfg", " Your user does not have sufficient privileges to dump clusters.\n", 1},
		{"show stats", "sacctmgr: accounting_storage/slurmdbd: acct_storage_p_get_stats: RC:2002 Your user doesn't have privilege to perform this action\n", 1},
		{"-n -P show user", "alice|physics|None\nroot|root|Administrator\n", 0},
	} {
		out, status := h.say("", append([]string{"sacctmgr"}, strings.Fields(tt.line)...)...)
		if diff := cmp.Diff(tt.want, out); diff != "" || status != tt.status {
			t.Errorf("%s: exit status %d, want %d (-want +got)\n%s", tt.line, status, tt.status, diff)
		}
	}
}

// What dump writes, load makes again on an empty cluster, and dumps the same.
func TestDumpAndLoad(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.people()
	for _, line := range []string{
		"add qos high priority=10 flags=denyonlimit,nodecay maxwall=1-0 grptres=cpu=100,mem=5g preempt=normal preemptmode=requeue usagefactor=2.5 gracetime=30",
		"add account optics parent=physics description=Light:and=more fairshare=5 grpjobs=7 maxjobs=3 maxtres=cpu=4",
		"add user bob account=optics,physics adminlevel=operator fairshare=parent qos=normal,high defaultqos=high",
		"add user bob account=optics partition=main maxsubmit=9",
		"add coordinator account=optics names=bob",
		"modify cluster base set maxwall=10:00:00",
	} {
		h.must(append([]string{"sacctmgr", "-i"}, strings.Fields(line)...)...)
	}
	h.must("sacctmgr", "dump", "base", "file=first.cfg")
	first := h.read("first.cfg")
	other := newHouse(t)
	other.file("first.cfg", first)
	other.must("sacctmgr", "-i", "load", "file=first.cfg")
	other.must("sacctmgr", "dump", "base", "file=second.cfg")
	if diff := cmp.Diff(first, other.read("second.cfg")); diff != "" {
		t.Errorf("loaded and dumped again (-first +second)\n%s", diff)
	}
	// Loading twice changes nothing.
	before := other.must("sacctmgr", "-P", "show", "assoc")
	other.must("sacctmgr", "-i", "load", "file=first.cfg")
	if diff := cmp.Diff(before, other.must("sacctmgr", "-P", "show", "assoc")); diff != "" {
		t.Errorf("loaded twice\n%s", diff)
	}
}

func TestLoadRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	before := h.must("sacctmgr", "-P", "show", "assoc")
	for name, text := range map[string]string{
		"no kind": "nonsense\n", "unknown option": "Cluster - 'base'\nParent - 'root'\nAccount - 'a':Bogus=1\n",
		"unknown parent": "Cluster - 'base'\nParent - 'nowhere'\nAccount - 'a'\n",
	} {
		h.file("bad.cfg", text)
		if out, status := h.say("", "sacctmgr", "-i", "load", "bad.cfg"); status != 1 {
			t.Errorf("%s: exit status %d\n%s", name, status, out)
		}
	}
	if after := h.must("sacctmgr", "-P", "show", "assoc"); after != before {
		t.Errorf("a refused file changed something:\n%s", after)
	}
}

func TestTransactionsTellTheStory(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.people()
	out := h.must("sacctmgr", "-n", "-P", "show", "transaction", "format=action,actor,where", "action=Add Accounts,Add Users")
	if want := "Add Accounts|root|physics\nAdd Users|root|alice\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
}

func TestReadonlyChangesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	out, status := h.say("", "sacctmgr", "-r", "-i", "add", "account", "a")
	if out != "Can't run this command in readonly mode.\n" || status != 1 {
		t.Errorf("%d %q", status, out)
	}
}
