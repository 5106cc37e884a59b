package cli

import (
	"bufio"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"

	ucli "github.com/urfave/cli/v2"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/option"
)

// Version is the release of Slurm whose commands these are; --version prints it.
const Version = "slurm 26.05.3"

// Flag is an option of a command that does not submit jobs.
type Flag struct {
	Long  string
	Short byte
	Arg   option.Arg
	Meta  string
	Env   string // variable that sets it
	Join  bool   // given several times: values with commas between
	Help  string
}

// Command is one command.
type Command struct {
	Name  string
	Args  string // what follows the options, for help
	About string
	Flags []Flag
	// Stop ends options at the first other word; else they may stand anywhere.
	Stop bool
	// Bare leaves the arguments to Run: the command reads them by itself.
	Bare bool
	// Brief is a short form of --usage, where the command has one.
	Brief byte
	Run   func(ctx context.Context, e *Env, in *Input) error
}

var commands = map[string]Command{}

func register(c Command) {
	if _, dup := commands[c.Name]; dup {
		panic("cli: two commands " + c.Name)
	}
	commands[c.Name] = c
}

// Names returns the commands, sorted.
func Names() []string {
	var out []string
	for n := range commands {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// Input is a parsed command line.
type Input struct {
	Args []string

	ctx   *ucli.Context
	count map[string]int
}

// Given says whether an option was set, by argument or variable.
func (in *Input) Given(long string) bool { return in.ctx.IsSet(long) }

// Str returns an option's value.
func (in *Input) Str(long string) string { return in.ctx.String(long) }

// Count says how often an option was given.
func (in *Input) Count(long string) int { return in.count[long] }

// List returns an option's value split at commas.
func (in *Input) List(long string) []string {
	var out []string
	for _, w := range strings.Split(in.Str(long), ",") {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// Main runs the command that e names and returns its exit status. A name that is
// no command is looked for in the first argument: slurm squeue -l.
func Main(ctx context.Context, e *Env) int {
	c, ok := commands[e.Prog]
	if !ok && len(e.Args) > 0 {
		if c, ok = commands[e.Args[0]]; ok {
			e.Prog, e.Args = e.Args[0], e.Args[1:]
		}
	}
	if !ok {
		fmt.Fprintf(e.Stderr, "usage: slurm COMMAND [ARGUMENT...]\ncommands: %s\n", strings.Join(Names(), " "))
		return 1
	}
	return Run(ctx, e, c)
}

// Run runs one command, prints its error and returns its exit status.
func Run(ctx context.Context, e *Env, c Command) int {
	out := bufio.NewWriterSize(e.Stdout, 64<<10)
	e.Stdout, e.flush = out, out.Flush
	err := c.run(ctx, e)
	if werr := out.Flush(); werr != nil && err == nil && !errors.Is(werr, syscall.EPIPE) {
		err = fmt.Errorf("write: %w", werr)
	}
	if e.client != nil {
		e.client.Close()
	}
	return report(e, err)
}

// report prints an error and finds its exit status.
func report(e *Env, err error) int {
	if err == nil {
		return 0
	}
	var o *option.Error
	if errors.As(err, &o) {
		for _, l := range o.Lines {
			io.WriteString(e.Stderr, l.Print(e.Prog)) //nolint:errcheck // nowhere left to complain
		}
		return o.Exit
	}
	e.errorf("%s", text(err))
	return exitError(e)
}

// exitError is the status of a failure, 1 unless SLURM_EXIT_ERROR says another.
func exitError(e *Env) int {
	if n, err := strconv.Atoi(e.Getenv("SLURM_EXIT_ERROR")); err == nil && n != 0 {
		return n & 0xff
	}
	return 1
}

// text is what a user reads of an error: Slurm's own sentence where there is one.
func text(err error) string {
	if n, ok := errno.Of(err); ok {
		return n.Error()
	}
	return err.Error()
}

// fail makes an error of one line, printed as Slurm's slurm_perror does: without
// the program's name.
func fail(format string, a ...any) error {
	return &option.Error{Exit: 1, Lines: []option.Line{{Level: option.Raw, Text: fmt.Sprintf(format, a...)}}}
}

// failed makes an error of one line of the log's error level.
func failed(format string, a ...any) error {
	return &option.Error{Exit: 1, Lines: []option.Line{{Level: option.Err, Text: fmt.Sprintf(format, a...)}}}
}

// fatalf makes an error of one line of the log's fatal level.
func fatalf(format string, a ...any) error {
	return &option.Error{Exit: 1, Lines: []option.Line{{Level: option.Fatal, Text: fmt.Sprintf(format, a...)}}}
}

// exit makes an error that prints nothing.
func exit(status int) error { return &option.Error{Exit: status} }

func (c Command) run(ctx context.Context, e *Env) error {
	if c.Bare {
		return c.Run(ctx, e, &Input{Args: e.Args})
	}
	words, rest, count, err := c.words(e)
	if err != nil {
		return err
	}
	if count["help"] > 0 {
		return c.help(e)
	}
	app := c.app(e, false)
	app.Action = func(u *ucli.Context) error {
		in := &Input{ctx: u, Args: u.Args().Slice(), count: count}
		switch {
		case in.Given("usage"):
			return c.usage(e)
		case in.Given("version"):
			e.printf("%s\n", Version)
			return nil
		case in.Given("autocomplete"):
			c.complete(e, in.Str("autocomplete"))
			return nil
		}
		return c.Run(ctx, e, in)
	}
	args := append([]string{c.Name}, words...)
	return app.RunContext(ctx, append(append(args, "--"), rest...))
}

// common are the options that every command has.
var common = []Flag{
	{Long: "help", Help: "print this help"},
	{Long: "usage", Help: "print a short help"},
	{Long: "version", Short: 'V', Help: "print the version"},
	{Long: "autocomplete", Arg: option.Required, Meta: "prefix", Help: "print the options that begin so"},
}

func (c Command) flags() []Flag {
	all := append(slices.Clip(c.Flags), common...)
	if c.Brief != 0 {
		i := slices.IndexFunc(all, func(f Flag) bool { return f.Long == "usage" })
		all[i].Short = c.Brief
	}
	return all
}

// words turns the command line and the environment into exact words for urfave:
// --name=value for every option, the last one given counting.
func (c Command) words(e *Env) (words, rest []string, count map[string]int, err error) {
	flags := c.flags()
	names := make([]option.Name, len(flags))
	for i, f := range flags {
		names[i] = option.Name{Long: f.Long, Short: f.Short, Arg: f.Arg, Key: i, Exact: f.Long == "autocomplete"}
	}
	value := map[int]string{}
	count = map[string]int{}
	for i, f := range flags {
		if v, ok := e.LookupEnv(f.Env); ok && f.Env != "" && (f.Arg != option.Required || v != "") {
			value[i] = v
		}
	}
	sc := option.NewSet(names).Scan(e.Args, !c.Stop)
	for {
		w, ok, err := sc.Next()
		if err != nil {
			return nil, nil, nil, option.Misspelled(err, e.Prog, 1)
		}
		if !ok {
			break
		}
		f := flags[w.Key]
		if f.Join && count[f.Long] > 0 {
			w.Value = value[w.Key] + "," + w.Value
		}
		value[w.Key] = w.Value
		count[f.Long]++
	}
	for i, f := range flags {
		v, ok := value[i]
		switch {
		case !ok:
		case f.Arg == option.None:
			words = append(words, "--"+f.Long)
		default:
			words = append(words, "--"+f.Long+"="+v)
		}
	}
	return words, sc.Rest(), count, nil
}

// app is the command as urfave knows it. Short names are for help alone: urfave
// takes -h for its own.
func (c Command) app(e *Env, short bool) *ucli.App {
	app := &ucli.App{
		Name: c.Name, HelpName: c.Name, Usage: c.About, UsageText: c.Name + " [OPTION...] " + c.Args,
		HideHelp: true, HideVersion: true, HideHelpCommand: true,
		Writer: e.Stdout, ErrWriter: e.Stderr,
		ExitErrHandler: func(*ucli.Context, error) {},
		OnUsageError:   func(_ *ucli.Context, err error, _ bool) error { return err },
	}
	for _, f := range c.flags() {
		if !short {
			f.Short = 0
		}
		app.Flags = append(app.Flags, f.urfave())
	}
	return app
}

func (f Flag) urfave() ucli.Flag {
	var alias []string
	if f.Short != 0 {
		alias = []string{string(rune(f.Short))}
	}
	help := f.Help
	if f.Env != "" {
		help += " [$" + f.Env + "]"
	}
	if f.Arg == option.None {
		return &ucli.BoolFlag{Name: f.Long, Aliases: alias, Usage: help, DisableDefaultText: true}
	}
	return &ucli.StringFlag{Name: f.Long, Aliases: alias, Usage: help + " (`" + strings.ToUpper(f.Meta) + "`)"}
}

func (c Command) help(e *Env) error {
	app := c.app(e, true)
	app.Setup()
	return ucli.ShowAppHelp(ucli.NewContext(app, nil, nil))
}

// usages are the texts of --usage, Slurm's line for line since scripts look
// options up in them.
//
//go:embed usage/*.txt
var usages embed.FS

// usageText is a command's synopsis, empty where it has none of its own.
func usageText(name string) string {
	text, err := usages.ReadFile("usage/" + name + ".txt")
	if err != nil {
		return ""
	}
	return string(text)
}

// usage prints the synopsis; a command without a text of its own lists its options.
func (c Command) usage(e *Env) error {
	if text := usageText(c.Name); text != "" {
		e.printf("%s", text)
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s", c.Name)
	width := b.Len()
	for _, f := range c.Flags {
		word := " [--" + f.Long
		if f.Arg == option.Required {
			word += " " + f.Meta
		}
		word += "]"
		if width+len(word) > 78 {
			b.WriteString("\n             ")
			width = 13
		}
		b.WriteString(word)
		width += len(word)
	}
	e.printf("%s %s\n", b.String(), c.Args)
	return nil
}

// complete prints the long options that begin with a prefix.
func (c Command) complete(e *Env, prefix string) {
	for _, f := range c.flags() {
		word := "--" + f.Long
		if strings.HasPrefix(word, prefix) || strings.HasPrefix(f.Long, prefix) {
			if f.Arg == option.Required {
				word += "="
			}
			e.printf("%s\n", word)
		}
	}
}
