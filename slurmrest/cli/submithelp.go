package cli

import (
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/option"
)

// submitCommand describes sbatch, srun or salloc to the help printer: its
// options come from the one table.
func submitCommand(t option.Tool, args string) Command {
	c := Command{Name: t.String(), Args: args, About: commands[t.String()].About}
	for _, o := range option.Table() {
		if o.Tools&t == 0 || o.Alias != "" {
			continue
		}
		switch o.Long {
		case "help", "usage", "version", "autocomplete":
			continue
		}
		help := o.Help
		if o.Do != option.Acts {
			help += " (" + o.Do.String() + ": " + o.Why + ")"
		}
		c.Flags = append(c.Flags, Flag{Long: o.Long, Short: o.Short, Arg: o.Arg, Meta: o.Meta, Env: strings.Join(o.Env(t), ", $"), Help: help})
	}
	return c
}

// complete prints the long options that begin with prefix, as Slurm does for
// completions: NAME= where an argument follows, and NAME with a blank where it
// may be left out.
func complete(e *Env, t option.Tool, prefix string) {
	var words []string
	for _, o := range option.Table() {
		word := "--" + o.Long
		if o.Tools&t == 0 || !strings.HasPrefix(word, prefix) {
			continue
		}
		switch o.ArgOf(t) {
		case option.None:
			words = append(words, word)
		case option.Required:
			words = append(words, word+"=")
		case option.Optional:
			words = append(words, word+"=", word+" ")
		}
	}
	if len(words) == 0 {
		return
	}
	slices.SortStableFunc(words, func(a, b string) int { return strings.Compare(strings.TrimRight(a, "= "), strings.TrimRight(b, "= ")) })
	e.printf("%s\n\n", strings.Join(words, "\n"))
}

// submitHelp answers --help, --usage, --version and --autocomplete of a
// submitting command.
func submitHelp(e *Env, t option.Tool, early *option.Early, args string) bool {
	switch {
	case early.Version:
		e.printf("%s\n", Version)
	case early.Help:
		if err := submitCommand(t, args).help(e); err != nil {
			e.errorf("%v", err)
		}
	case early.Usage:
		if err := submitCommand(t, args).usage(e); err != nil {
			e.errorf("%v", err)
		}
	case early.Autocomplete != "":
		complete(e, t, early.Autocomplete)
	default:
		return false
	}
	return true
}
