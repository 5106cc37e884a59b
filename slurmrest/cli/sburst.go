package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func init() {
	register(Command{Name: "sburst", Bare: true, About: "what Slurm has no word for", Run: sburst})
}

// own is the root of sbatchd's own endpoints.
const own = "/sbatchd/v1"

// sburst runs one of our own words, or a Slurm command given as the first one:
// sburst squeue -l.
func sburst(ctx context.Context, e *Env, in *Input) error {
	if len(in.Args) > 0 {
		if c, ok := commands[in.Args[0]]; ok && c.Name != "sburst" {
			e.Prog, e.Args = c.Name, in.Args[1:]
			return c.run(ctx, e)
		}
	}
	app := &ucli.App{
		Name: "sburst", HelpName: "sburst", Usage: "cloud bursting for Slurm users", Version: Version,
		UsageText: "sburst WORD [OPTION...] [ARGUMENT...]\n   sburst sbatch|squeue|... [ARGUMENT...]",
		Writer:    e.Stdout, ErrWriter: e.Stderr, EnableBashCompletion: true,
		ExitErrHandler: func(*ucli.Context, error) {},
		CommandNotFound: func(_ *ucli.Context, name string) {
			e.errorf("no such word: %s; see sburst --help", name)
		},
		Commands: burstWords(e),
	}
	args := in.Args
	known := len(args) == 0 || strings.HasPrefix(args[0], "-") || args[0] == "help" || args[0] == "h"
	for _, c := range app.Commands {
		if len(args) > 0 && c.HasName(args[0]) {
			known = true
			var err error
			if args, err = exactWords(c, args); err != nil {
				return option.Misspelled(err, "sburst "+c.Name, 1)
			}
			break
		}
	}
	if err := app.RunContext(ctx, append([]string{"sburst"}, args...)); err != nil {
		return err
	}
	if !known {
		return exit(1)
	}
	return nil
}

// exactWords lets options of a word stand anywhere and be cut short, which
// urfave does not: it turns them into --name=value before the other arguments.
func exactWords(c *ucli.Command, args []string) ([]string, error) {
	names := []option.Name{{Long: "help", Short: 'h', Key: -1}}
	for i, f := range c.Flags {
		arg := option.Required
		if _, ok := f.(*ucli.BoolFlag); ok {
			arg = option.None
		}
		for _, n := range f.Names() {
			if len(n) == 1 {
				names = append(names, option.Name{Short: n[0], Arg: arg, Key: i})
			} else {
				names = append(names, option.Name{Long: n, Arg: arg, Key: i})
			}
		}
	}
	out := args[:1:1]
	sc := option.NewSet(names).Scan(args[1:], true)
	for {
		w, ok, err := sc.Next()
		switch {
		case err != nil:
			return nil, err
		case !ok:
			return append(append(out, "--"), sc.Rest()...), nil
		case w.Key < 0:
			out = append(out, "--help")
		case w.HasArg:
			out = append(out, "--"+c.Flags[w.Key].Names()[0]+"="+w.Value)
		default:
			out = append(out, "--"+c.Flags[w.Key].Names()[0])
		}
	}
}

// burstWords are the words of sburst.
func burstWords(e *Env) []*ucli.Command {
	word := func(name, args, usage string, run func(c *ucli.Context, e *Env) error, flags ...ucli.Flag) *ucli.Command {
		flags = append(flags, &ucli.BoolFlag{Name: "json", Usage: "print the controller's answer as JSON"})
		return &ucli.Command{
			Name: name, Usage: usage, ArgsUsage: args, Flags: flags,
			OnUsageError: func(_ *ucli.Context, err error, _ bool) error { return failed("%s: %v", name, err) },
			Action:       func(c *ucli.Context) error { return run(c, e) },
		}
	}
	job := &ucli.StringFlag{Name: "j", Aliases: []string{"job"}, Usage: "job `ID`"}
	return []*ucli.Command{
		word("pools", "", "list pools: what they may rent and what they have", burstPools),
		word("offers", "[POOL]", "list what pools could rent now, cheapest first", burstOffers,
			&ucli.StringFlag{Name: "pool", Aliases: []string{"p"}, Usage: "of this `POOL` alone"}),
		word("logs", "JOB", "print a job's output, even after its node is gone", burstLogs,
			&ucli.BoolFlag{Name: "f", Aliases: []string{"follow"}, Usage: "go on as the job writes"},
			&ucli.BoolFlag{Name: "stderr", Aliases: []string{"e"}, Usage: "standard error, where it has a file of its own"},
			&ucli.StringFlag{Name: "restart", Usage: "output of the run `N`; else the newest"}, job),
		word("bill", "-j JOB", "what a job was given, how it ended, what it cost", burstBill, job),
		word("checkpoints", "JOB", "list a job's complete checkpoints", burstCheckpoints, job),
		word("explain", "JOB", "say why a job waits, pool by pool", burstExplain, job),
		word("leaks", "", "compare what providers list with the ledger", burstLeaks),
		word("reclaim", "NODE", "act as if the provider took this node away", burstReclaim,
			&ucli.DurationFlag{Name: "notice", Value: 2 * time.Minute, Usage: "notice given, for instance `30s`"}),
		word("options", "", "list every option of sbatch, srun and salloc, and what is done with it", burstOptions),
	}
}

// fetch asks one of our endpoints; with --json it prints the answer as it is.
func fetch[T any](c *ucli.Context, e *Env, path string, query url.Values) (*T, error) {
	api, err := e.Client(c.Context)
	if err != nil {
		return nil, failed("%s", text(err))
	}
	if c.Bool("json") {
		var raw rawJSON
		if err := api.Get(c.Context, own+path, query, &raw); err != nil {
			return nil, burstError(err)
		}
		return nil, printData(e, raw, false)
	}
	out := new(T)
	if err := api.Get(c.Context, own+path, query, out); err != nil {
		return nil, burstError(err)
	}
	return out, nil
}

// rawJSON keeps an answer's text.
type rawJSON []byte

func (r *rawJSON) UnmarshalJSON(b []byte) error {
	*r = append((*r)[:0], b...)
	return nil
}

// burstError says what went wrong; the controller's sentence says more than its
// number.
func burstError(err error) error {
	if d := description(err); d != "" {
		return failed("%s: %s", text(err), d)
	}
	return failed("%s", text(err))
}

// jobArg is the job that a word is about: -j ID or the first argument.
func jobArg(c *ucli.Context) (string, error) {
	id := c.String("j")
	if id == "" {
		id = c.Args().First()
	}
	if id == "" {
		return "", failed("%s: which job? give its id", c.Command.Name)
	}
	if _, ok := parseJobRef(id); !ok {
		return "", failed("Invalid job id %s", id)
	}
	return url.PathEscape(id), nil
}

// columns writes aligned columns.
func columns(e *Env, write func(w io.Writer)) error {
	w := tabwriter.NewWriter(e.Stdout, 0, 8, 2, ' ', 0)
	write(w)
	return w.Flush()
}

func burstPools(c *ucli.Context, e *Env) error {
	out, err := fetch[wire.Pools](c, e, "/pools", nil)
	if out == nil {
		return err
	}
	return columns(e, func(w io.Writer) {
		fmt.Fprintln(w, "POOL\tPROVIDER\tSTATE\tCAPACITY\tGRES\tCPUS\tMEMORY\tMAX_PRICE\tNODES(U/B/T)\tTRUST\tRUNTIME\tDEAD_MAN\tNOTE")
		for _, p := range out.Pools {
			note := p.Why
			if !p.Until.IsZero() {
				note = "set aside until " + tres.FormatTime(p.Until.In(e.Local)) + ": " + p.Why
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%d/%d/%d\t%s\t%s\t%s\t%s\n", p.Name, p.Provider, or(p.State, "UP"), p.Capacity,
				or(p.Gres, "-"), p.CPUs, tres.Memory(max(p.MemoryMiB, 0)), or(p.MaxPrice, "-"), p.Up, p.PoweringUp, p.MaxNodes,
				p.Trust, p.Runtime, or(p.DeadMan, "-"), note)
		}
	})
}

func burstOffers(c *ucli.Context, e *Env) error {
	query := url.Values{}
	if p := or(c.String("pool"), c.Args().First()); p != "" {
		query.Set("pool", p)
	}
	out, err := fetch[wire.Offers](c, e, "/offers", query)
	if out == nil {
		return err
	}
	for _, text := range out.Errors {
		e.errorf("%s", text)
	}
	return columns(e, func(w io.Writer) {
		fmt.Fprintln(w, "POOL\tPROVIDER\tTYPE\tREGION\tGRES\tCPUS\tMEMORY\tINTERCONNECT\tKIND\tPRICE/H\tAVAILABLE")
		for _, o := range out.Offers {
			kind := "ondemand"
			if o.Spot {
				kind = "spot"
			}
			available := "?"
			if o.Available > 0 {
				available = fmt.Sprint(o.Available)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", o.Pool, o.Provider, o.InstanceType, or(o.Region, "-"),
				or(o.Gres, "-"), o.CPUs, tres.Memory(max(o.MemoryMiB, 0)), or(o.Interconnect, "-"), kind,
				money(o.PricePerHour, o.Currency), available)
		}
	})
}

// money prints an amount with its currency, to the cent and, below it, further.
func money(amount float64, currency string) string {
	digits := 2
	if amount != 0 && amount < 0.1 && amount > -0.1 {
		digits = 4
	}
	if currency == "" || currency == "USD" {
		return fmt.Sprintf("$%.*f", digits, amount)
	}
	return fmt.Sprintf("%.*f %s", digits, amount, currency)
}

func burstLogs(c *ucli.Context, e *Env) error {
	id, err := jobArg(c)
	if err != nil {
		return err
	}
	query := url.Values{}
	if c.Bool("stderr") {
		query.Set("stream", "err")
	}
	if c.Bool("f") {
		query.Set("follow", "1")
	}
	if r := c.String("restart"); r != "" {
		query.Set("restart", r)
	}
	api, err := e.Client(c.Context)
	if err != nil {
		return failed("%s", text(err))
	}
	body, err := api.Stream(c.Context, own+"/logs/"+id, query)
	if err != nil {
		return burstError(err)
	}
	defer body.Close() //nolint:errcheck // only read
	buf := make([]byte, 32<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if _, err := e.Stdout.Write(buf[:n]); err != nil {
				return nil //nolint:nilerr // nobody reads on
			}
			if err := e.flush(); err != nil {
				return nil //nolint:nilerr // nobody reads on
			}
		}
		switch {
		case err == io.EOF: //nolint:errorlint // a body's own
			return nil
		case err != nil:
			return failed("output ended early: %v", err)
		}
	}
}

func burstCheckpoints(c *ucli.Context, e *Env) error {
	id, err := jobArg(c)
	if err != nil {
		return err
	}
	out, err := fetch[wire.Checkpoints](c, e, "/checkpoints/"+id, nil)
	if out == nil {
		return err
	}
	if len(out.Checkpoints) == 0 {
		e.printf("No checkpoints of job %d\n", out.JobID)
		return nil
	}
	return columns(e, func(w io.Writer) {
		fmt.Fprintln(w, "NUMBER\tRESTART\tTIME\tREASON\tSIZE\tFILES\tMANIFEST_SHA256\tNEWEST")
		for _, p := range out.Checkpoints {
			newest := ""
			if p.Newest {
				newest = "*"
			}
			fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\t%d\t%.12s\t%s\n", p.Number, p.Restart, tres.FormatTime(p.Time.In(e.Local)), p.Reason,
				tres.FormatUnits(float64(p.Bytes)/1024, tres.UnitKilo, tres.UnitsShort), p.Files, p.SHA256, newest)
		}
	})
}

func burstExplain(c *ucli.Context, e *Env) error {
	id, err := jobArg(c)
	if err != nil {
		return err
	}
	out, err := fetch[wire.Explain](c, e, "/explain/"+id, nil)
	if out == nil {
		return err
	}
	e.printf("Job %d is %s, reason %s\n", out.JobID, out.State, or(out.Reason, "None"))
	if out.Detail != "" {
		e.printf("%s\n", out.Detail)
	}
	if len(out.Pools) == 0 {
		return nil
	}
	return columns(e, func(w io.Writer) {
		fmt.Fprintln(w, "PARTITION\tPOOL\tFITS\tWHY")
		for _, p := range out.Pools {
			why := p.Why
			if !p.Until.IsZero() {
				why += " (set aside until " + tres.FormatTime(p.Until.In(e.Local)) + ")"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.Partition, or(p.Pool, "(own nodes)"), strings.ToLower(yesNo(p.Fits)), why)
		}
	})
}

func burstLeaks(c *ucli.Context, e *Env) error {
	out, err := fetch[wire.Leaks](c, e, "/leaks", nil)
	if out == nil {
		return err
	}
	if len(out.Instances) > 0 {
		err = columns(e, func(w io.Writer) {
			fmt.Fprintln(w, "PROVIDER\tINSTANCE\tTAG\tNODE\tLEDGER\tLISTED\tLEAKED\tNOTE")
			for _, r := range out.Instances {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Provider, or(r.ProviderID, "-"), or(r.Tag, "-"), or(r.Node, "-"),
					or(r.Ledger, "-"), strings.ToLower(yesNo(r.Listed)), strings.ToLower(yesNo(r.Leaked)), r.Note)
			}
		})
	}
	for _, text := range out.Errors {
		e.errorf("%s", text)
	}
	e.printf("leaked: %d\n", out.Leaked)
	if err == nil && (out.Leaked > 0 || len(out.Errors) > 0) {
		err = exit(1)
	}
	return err
}

func burstReclaim(c *ucli.Context, e *Env) error {
	node := c.Args().First()
	if node == "" {
		return failed("reclaim: which node?")
	}
	api, err := e.Client(c.Context)
	if err != nil {
		return failed("%s", text(err))
	}
	req := wire.ReclaimRequest{Notice: int64(c.Duration("notice") / time.Second)}
	if err := api.Post(c.Context, own+"/reclaim/"+url.PathEscape(node), req, nil); err != nil {
		return burstError(err)
	}
	return nil
}

// burstOptions prints the one option table.
func burstOptions(_ *ucli.Context, e *Env) error {
	return columns(e, func(w io.Writer) {
		fmt.Fprintln(w, "OPTION\tARGUMENT\tCOMMANDS\tVARIABLES\tEFFECT\tMEANING")
		for _, r := range option.Rows() {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, or(r.Argument, "-"), r.Commands, or(r.Variables, "-"), r.Effect, r.Meaning)
		}
	})
}
