package option

import (
	"fmt"
	"strings"
)

//go:generate go run ./gen

// Row is one option as the printed table and OPTIONS.md show it.
type Row struct {
	Name      string // -N, --nodes
	Argument  string
	Commands  string
	Variables string
	Effect    string // acts, no effect: why, refused: why
	Meaning   string
}

// Rows are the options in the order of the table. Old spellings stand with the
// option they are another name of.
func Rows() []Row {
	aliases := map[string][]string{}
	for _, o := range table {
		if o.Alias != "" {
			aliases[o.Alias] = append(aliases[o.Alias], "--"+o.Long)
		}
	}
	var rows []Row
	for _, o := range table {
		if o.Alias == "" {
			rows = append(rows, o.row(aliases[o.Long]))
		}
	}
	return rows
}

func (o *Option) row(aliases []string) Row {
	names := append([]string{"--" + o.Long}, aliases...)
	if o.Short != 0 {
		names = append([]string{"-" + string(rune(o.Short))}, names...)
	}
	r := Row{Name: strings.Join(names, ", "), Argument: o.Meta, Effect: o.Do.String(), Meaning: o.Help}
	if o.Arg == Optional {
		r.Argument = "[" + o.Meta + "]"
	}
	if o.Why != "" {
		r.Effect += ": " + o.Why
	}
	var tools, env []string
	for _, t := range []Tool{Sbatch, Srun, Salloc} {
		if o.Tools&t != 0 {
			tools = append(tools, t.String())
			env = append(env, o.Env(t)...)
		}
	}
	r.Commands, r.Variables = strings.Join(tools, " "), strings.Join(env, " ")
	return r
}

// Document is OPTIONS.md.
func Document() string {
	counts := map[Effect]int{}
	for _, o := range table {
		if o.Alias == "" {
			counts[o.Do]++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# Options of sbatch, srun and salloc

Written by `+"`make generate`"+` from the one table that the commands parse with; `+"`sburst options`"+` prints the same.
Every option of Slurm 26.05 is in it, and says what becomes of it here:

- *acts*: as in Slurm (%d options)
- *no effect*: its value is checked as Slurm checks it, kept and shown where Slurm shows it, and nothing else happens (%d)
- *refused*: the job would come out wrong, so it is not taken, with Slurm's own error (%d)

Those without a Slurm name (`+"`--checkpoint-dir`"+` and the like) also stand on `+"`#BURST`"+` lines; the `+"`--container-`"+` ones are
Pyxis's. `+"`sbatchd check --scripts FILES`"+` says the same of a site's own scripts, line by line.

| option | argument | commands | variables | effect | meaning |
| --- | --- | --- | --- | --- | --- |
`, counts[Acts], counts[NoEffect], counts[Refused])
	for _, r := range Rows() {
		cells := []string{code(r.Name), code(r.Argument), r.Commands, code(r.Variables), r.Effect, r.Meaning}
		for i, c := range cells {
			cells[i] = strings.ReplaceAll(c, "|", `\|`)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	return b.String()
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
