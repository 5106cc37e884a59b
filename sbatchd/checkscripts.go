package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/slurmrest/option"
)

// remark is one line of check --scripts.
type remark struct {
	line int
	text string
}

// scriptReport counts what was said of all scripts.
type scriptReport struct {
	scripts, acts, none, refused, faults, leans int
}

// checkScripts reads batch scripts and says per line what will act, have no
// effect or be refused here, and what else of their old cluster they lean on. It
// exits 1 if a script would not be taken. cfg may be nil: partitions are then
// not looked up.
func checkScripts(cfg *partitions.Config, files []string, w, errw io.Writer) error {
	var r scriptReport
	for _, name := range files {
		body, err := os.ReadFile(name)
		if err != nil {
			fmt.Fprintf(errw, "%s:1: %v\n", name, err)
			r.faults++
			continue
		}
		r.scripts++
		remarks := append(r.options(cfg, body, name), r.leaning(body)...)
		slices.SortStableFunc(remarks, func(a, b remark) int { return cmp.Compare(a.line, b.line) })
		for _, m := range remarks {
			fmt.Fprintf(w, "%s:%d: %s\n", name, m.line, m.text)
		}
	}
	fmt.Fprintf(w, "scripts: %d; options: %d act, %d have no effect, %d are refused; faults: %d; leans on: %d\n",
		r.scripts, r.acts, r.none, r.refused, r.faults, r.leans)
	if r.refused+r.faults > 0 {
		return cli.Exit("", 1)
	}
	return nil
}

func (r *scriptReport) options(cfg *partitions.Config, body []byte, name string) []remark {
	var out []remark
	for _, f := range option.Lint(body, filepath.Base(name), time.Now()) {
		switch {
		case f.Fault:
			r.faults++
		case f.Option == nil:
			r.none++
		case f.Option.Do == option.Acts:
			r.acts++
		case f.Option.Do == option.NoEffect:
			r.none++
		default:
			r.refused++
		}
		text := f.String()
		if f.Fault {
			text = "fault: " + text
		}
		out = append(out, remark{f.Line, text})
		if cfg == nil || f.Fault || f.Option == nil || f.Option.Long != "partition" {
			continue
		}
		_, names, _ := strings.Cut(f.Text, "=")
		for p := range strings.SplitSeq(names, ",") {
			if cfg.ResolvePartition(p) == nil {
				r.faults++
				out = append(out, remark{f.Line, "fault: there is no partition " + p + " here; PartitionAlias= maps a script's names"})
			}
		}
	}
	return out
}

var (
	moduleLine = regexp.MustCompile(`(?:^|[;&|]\s*)\s*(?:module\s+(?:load|add|swap|use)|ml(?:\s+load)?)\s+([^;&|#]+)`)
	condaLine  = regexp.MustCompile(`(?:conda|mamba|micromamba|source)\s+activate\s+([^\s;&|#]+)`)
	sourceLine = regexp.MustCompile(`(?:^|[;&|]\s*)\s*(?:source|\.)\s+(\S+/bin/activate)\b`)
	absolute   = regexp.MustCompile("(?:^|[\\s\"'=:,(<>`])(/[A-Za-z0-9._+-]+(?:/[A-Za-z0-9._+@%-]*)+)")
)

// everywhere are folders that every machine and image has.
var everywhere = []string{"/bin/", "/usr/bin/", "/usr/sbin/", "/sbin/", "/dev/", "/proc/", "/sys/", "/tmp/", "/var/tmp/", "/etc/profile", "/etc/bash"}

// leaning finds what a script takes from the cluster it was written for.
func (r *scriptReport) leaning(body []byte) []remark {
	var out []remark
	say := func(line int, text string) {
		r.leans++
		out = append(out, remark{line, "leans on " + text})
	}
	number := 0
	for raw := range bytes.Lines(body) {
		number++
		line := strings.TrimSpace(string(raw))
		directive := strings.HasPrefix(line, "#SBATCH") || strings.HasPrefix(line, "#BURST")
		if number == 1 || strings.HasPrefix(line, "#") && !directive {
			continue
		}
		if m := moduleLine.FindStringSubmatch(line); m != nil && !directive {
			for _, name := range strings.Fields(m[1]) {
				if !strings.HasPrefix(name, "-") {
					say(number, "module "+strings.Trim(name, `"'`))
				}
			}
		}
		switch m, s := condaLine.FindStringSubmatch(line), sourceLine.FindStringSubmatch(line); {
		case m != nil:
			say(number, "conda environment "+strings.Trim(m[1], `"'`))
		case s != nil:
			say(number, "virtual environment "+strings.TrimSuffix(strings.Trim(s[1], `"'`), "/bin/activate"))
			continue
		}
		var seen []string
		for _, m := range absolute.FindAllStringSubmatch(line, -1) {
			path := m[1]
			common := slices.ContainsFunc(everywhere, func(dir string) bool { return strings.HasPrefix(path+"/", dir) })
			if !common && !slices.Contains(seen, path) {
				seen = append(seen, path)
				say(number, "path "+path)
			}
		}
	}
	return out
}
