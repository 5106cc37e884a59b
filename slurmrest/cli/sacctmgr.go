package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func init() {
	register(Command{
		Name: "sacctmgr", About: "accounts, users, associations and QOS", Args: "[COMMAND]", Brief: 'h',
		Flags: sacctmgrFlags, Run: sacctmgr,
	})
}

var sacctmgrFlags = []Flag{
	{Long: "immediate", Short: 'i', Help: "commit changes without asking"},
	{Long: "noheader", Short: 'n', Help: "no header"},
	{Long: "oneliner", Short: 'o', Help: "one record a line"},
	{Long: "parsable", Short: 'p', Help: "| after each field"},
	{Long: "parsable2", Short: 'P', Help: "| between fields"},
	{Long: "quiet", Short: 'Q', Help: "no messages but errors"},
	{Long: "readonly", Short: 'r', Help: "change nothing"},
	{Long: "associations", Short: 's', Help: "list associations too"},
	{Long: "verbose", Short: 'v', Help: "say more"},
	{Long: "json", Arg: option.Optional, Meta: "data_parser", Help: "answer as JSON"},
	{Long: "yaml", Arg: option.Optional, Meta: "data_parser", Help: "answer as YAML"},
}

// manager is one run of sacctmgr.
type manager struct {
	ctx context.Context //nolint:containedctx // of one command
	e   *Env
	in  *Input
	c   *client.Client

	status int // exit status so far: a failure doesn't end a session
	stdin  *bufio.Reader
	// What can also be switched on from within a session.
	immediate, readonly bool
}

const noListEntity = `No valid entity in list command
Input line must include "Account", "Association", "Cluster", "Configuration",
"Event", "Federation", "Problem", "QOS", "Resource", "Reservation",
"RunAwayJobs", "Stats", "Transaction", "TRES", "User", or "WCKey"
`

func sacctmgr(ctx context.Context, e *Env, in *Input) error {
	if w := in.Str("json") + in.Str("yaml"); w == "list" {
		return printStructured(e, in, &wire.Response{})
	}
	c, err := e.Client(ctx)
	if err != nil {
		return failed("%s", text(err))
	}
	m := &manager{ctx: ctx, e: e, in: in, c: c, immediate: in.Given("immediate"), readonly: in.Given("readonly")}
	if len(in.Args) > 0 {
		m.do(in.Args)
	} else {
		m.session()
	}
	if m.status != 0 {
		return exit(m.status)
	}
	return nil
}

// session reads commands until exit.
func (m *manager) session() {
	for {
		m.e.printf("sacctmgr: ")
		line, err := m.line()
		words := strings.Fields(line)
		if len(words) > 0 && (words[0] == "exit" || words[0] == "quit") || err != nil {
			if err != nil {
				m.e.printf("\n")
			}
			return
		}
		if len(words) > 0 {
			m.do(words)
		}
	}
}

func (m *manager) line() (string, error) {
	if m.stdin == nil {
		m.stdin = bufio.NewReader(m.e.Stdin)
	}
	if m.e.flush != nil {
		if err := m.e.flush(); err != nil {
			return "", err
		}
	}
	return m.stdin.ReadString('\n')
}

// complain writes to standard error as it is and makes the command fail.
func (m *manager) complain(text string, a ...any) {
	m.fail()
	fmt.Fprintf(m.e.Stderr, text+"\n", a...)
}

// fail makes the command fail. What it said before is written first, so that a
// terminal shows both in order.
func (m *manager) fail() {
	m.status = 1
	if m.e.flush != nil {
		if err := m.e.flush(); err != nil {
			m.status = 2 // nobody reads us any more
		}
	}
}

// acctVerbs are sacctmgr's commands; they may be cut short to their first letters.
var acctVerbs = []struct {
	name  string
	least int // letters
	do    func(m *manager, args []string)
}{
	{"add", 2, (*manager).add}, {"create", 1, (*manager).add},
	{"archive", 2, (*manager).archive},
	{"associations", 2, func(*manager, []string) {}},
	{"clear", 2, (*manager).clear},
	{"delete", 2, (*manager).remove}, {"remove", 3, (*manager).remove},
	{"dump", 2, (*manager).dump},
	{"exit", 1, func(*manager, []string) {}}, {"quit", 4, func(*manager, []string) {}},
	{"help", 2, func(m *manager, _ []string) { m.e.printf("%s", sacctmgrHelp) }},
	{"immediate", 9, func(m *manager, _ []string) { m.immediate = true }},
	{"list", 3, (*manager).show}, {"show", 1, (*manager).show},
	{"load", 2, (*manager).load},
	{"modify", 1, (*manager).modify}, {"update", 1, (*manager).modify},
	{"oneliner", 1, func(*manager, []string) {}},
	{"ping", 4, (*manager).ping},
	{"quiet", 4, func(*manager, []string) {}},
	{"readonly", 4, func(m *manager, _ []string) { m.readonly = true }},
	{"reconfigure", 4, (*manager).reconfigure},
	{"shutdown", 4, (*manager).shutdown},
	{"verbose", 4, func(*manager, []string) {}},
	{"version", 4, func(m *manager, _ []string) { m.e.printf("%s\n", Version) }},
}

func (m *manager) do(args []string) {
	for _, v := range acctVerbs {
		if abbreviates(args[0], v.name, v.least) {
			v.do(m, args[1:])
			return
		}
	}
	m.complain("invalid keyword: %s", args[0])
}

// abbreviates says whether a word is a name cut short to at least so many letters.
func abbreviates(word, name string, least int) bool {
	return len(word) >= min(least, len(name)) && len(word) <= len(name) && strings.EqualFold(word, name[:len(word)])
}

const commitQuestion = "Would you like to commit changes?"

// confirm asks a question; 30 seconds without an answer are a no.
func (m *manager) confirm(question string) bool {
	if m.immediate {
		return true
	}
	m.e.printf("%s (You have 30 seconds to decide)\n(N/y): ", question)
	answer := make(chan string, 1)
	go func() { // ends with the process when nobody answers
		line, err := m.line()
		if err != nil {
			line = ""
		}
		answer <- line
	}()
	select {
	case line := <-answer:
		m.e.printf("\n")
		return strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y")
	case <-time.After(30 * time.Second):
		m.e.printf("timeout\n")
	case <-m.ctx.Done():
	}
	return false
}

// commit asks whether to make the edits that were tried and makes them.
func (m *manager) commit(edits ...wire.AcctEdit) {
	switch {
	case m.immediate:
	case !m.confirm(commitQuestion):
		m.e.printf(" Changes Discarded\n")
		return
	}
	if a, ok := m.edit(false, edits...); ok && a.Error != "" {
		m.complain(" Error with request: %s", a.Error)
	}
}

// edit makes or tries edits. It complains by itself where nothing answers.
func (m *manager) edit(dry bool, edits ...wire.AcctEdit) (wire.AcctAnswer, bool) {
	var a wire.AcctAnswer
	err := m.c.Post(m.ctx, "/sbatchd/v1/accounting", wire.AcctEdits{Edits: edits, Dry: dry}, &a)
	if err != nil {
		m.fail()
		m.e.errorf("%s", text(err))
		return a, false
	}
	return a, true
}

// denied says whether an answer is a lack of rights, and says so as Slurm does.
func (m *manager) denied(a wire.AcctAnswer) bool {
	if errno.Errno(a.Number) != errno.AccessDenied {
		return false
	}
	m.fail()
	m.e.errorf("%s", a.Error)
	fmt.Fprintf(m.e.Stderr, " Error with request: %s\n", errno.AccessDenied)
	return true
}

func (m *manager) mayWrite() bool {
	if m.readonly {
		m.complain("Can't run this command in readonly mode.")
	}
	return !m.readonly
}

func (m *manager) archive(args []string) {
	switch {
	case len(args) == 0 || !abbreviates(args[0], "dump", 1) && !abbreviates(args[0], "load", 1):
		m.complain("No valid entity in archive command\nInput line must include, \"Dump\", or \"load\"")
	case abbreviates(args[0], "dump", 1):
		m.e.printf("This may result in loss of accounting database records (if Purge* options enabled).\n")
		if !m.confirm("Are you sure you want to continue?") {
			m.e.printf(" Changes Discarded\n")
			return
		}
		m.complain(" Problem dumping archive: %s", errno.NotSupported)
	default:
		m.complain(" Problem loading archive: %s", errno.NotSupported)
	}
}

// clear answers clear stats: what is counted belongs to the controller, and
// sdiag --reset is its command.
func (m *manager) clear(args []string) {
	if len(args) == 0 || !abbreviates(args[0], "stats", 1) {
		m.complain("No valid entity in clear command\nInput line must include \"Stats\"")
		return
	}
	m.complain(" Problem clearing statistics: %s", errno.NotSupported)
}

func (m *manager) ping([]string) {
	p, err := m.c.Ping(m.ctx)
	if err != nil || len(p.Pings) == 0 {
		m.e.printf("slurmdbd(primary) at %s is DOWN\n", m.c.Endpoint())
		m.status = 1
		return
	}
	m.e.printf("slurmdbd(primary) at %s is UP\n", p.Pings[0].Hostname)
}

func (m *manager) reconfigure([]string) {
	if err := m.c.Reconfigure(m.ctx); err != nil {
		m.complain(" Problem reconfiguring server: %s", text(err))
	}
}

// shutdown is refused: accounting is the controller itself, which its service
// manager stops.
func (m *manager) shutdown([]string) {
	m.complain(" Problem shutting down server: %s", errno.NotSupported)
}

// readFile reads a file named on the command line.
func (m *manager) readFile(name string) ([]byte, error) {
	if m.e.ReadFile != nil {
		return m.e.ReadFile(m.e.Path(name))
	}
	return os.ReadFile(m.e.Path(name))
}

const sacctmgrHelp = `sacctmgr [<OPTION>] [<COMMAND>]
    Valid <OPTION> values are:
     -h or --help: equivalent to "help" command
     -i or --immediate: commit changes immediately
     --json[=data_parser]: Produce JSON output (where supported)
     -n or --noheader: no header will be added to the beginning of output
     -o or --oneliner: equivalent to "oneliner" command
     -p or --parsable: output will be '|' delimited with a '|' at the end
     -P or --parsable2: output will be '|' delimited without a '|' at the end
     -Q or --quiet: equivalent to "quiet" command
     --yaml[=data_parser]: Produce YAML output (where supported)
     -r or --readonly: equivalent to "readonly" command
     -s or --associations: equivalent to "associations" command
     -v or --verbose: equivalent to "verbose" command
     -V or --version: equivalent to "version" command

  Valid <COMMAND> values are:
     add, delete, modify    account, cluster, coordinator, qos, user
     list (show)            account, association, cluster, configuration, event,
                            federation, instance, problem, qos, reservation,
                            resource, runawayjobs, stats, transaction, tres,
                            user, wckey
     dump, load             a cluster's records to and from a file
     ping, reconfigure, version, help, exit

  Records are chosen by "where <key>=<value>" and changed by "set <key>=<value>";
  format=<column>[%<width>],... chooses the columns of a list.
`
