package option_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/sbatchd/sbatchd/slurmrest/option"
)

// seeds are the directives of testdata/shapes.txt, each a script of its own.
func seeds(f *testing.F) {
	data, err := os.ReadFile("testdata/shapes.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, block := range strings.Split(string(data), "\n== ")[1:] {
		f.Add("#!/bin/sh\n"+block[strings.IndexByte(block, '\n')+1:], "-N2 x")
	}
}

// FuzzParse holds script and command line to the promises of Parse: an *Error
// or values that can be turned into a submission.
func FuzzParse(f *testing.F) {
	data, err := os.ReadFile("testdata/scripts.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range strings.Split(string(data), "\n== ") {
		f.Add("#!/bin/sh\n"+s, "-N2 x")
	}
	seeds(f)
	for _, args := range []string{"--nodelist=node[0-2000000]", "-w a[0-9]b[0-9]c[0-9]d[0-9]e[0-9]f[0-9]g[0-9]", "-t 0:43200 --mem=8GB", "--array=1-5%2 -d afterok:1?after:2", "-n 4 : -n 2"} {
		f.Add("#!/bin/sh\n", args)
	}
	f.Fuzz(func(t *testing.T, script, args string) {
		in := input(script, strings.Fields(args)...)
		all, err := option.Parse(in)
		var e *option.Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("not an option.Error: %v", err)
		}
		for _, v := range all {
			v.Job(option.Submission{Name: "x", Dir: "/"})
			v.Burst()
			if _, err := v.Environ(option.Shell{}); err != nil && !errors.As(err, &e) {
				t.Fatal(err)
			}
		}
		lines := strings.Count(script, "\n") + 1
		for _, finding := range option.Lint([]byte(script), "job", now) {
			if finding.Line < 1 || finding.Line > lines || finding.String() == "" {
				t.Fatalf("line %d of %d: %q", finding.Line, lines, finding)
			}
		}
	})
}

// FuzzSrun does the same for a command line of srun and its variables.
func FuzzSrun(f *testing.F) {
	f.Add("-n 4 -c2 --gres=gpu:1 --cpu-bind=q hostname", "SLURM_NTASKS=4")
	f.Add("--mpi=pmi2 -l -K1 : -n1 a b", "SLURM_JOB_NODELIST=n[1-3]")
	f.Fuzz(func(t *testing.T, args, variable string) {
		_, err := option.Parse(option.Input{Tool: option.Srun, Args: strings.Fields(args), Environ: []string{variable}, Now: now})
		var e *option.Error
		if err != nil && !errors.As(err, &e) {
			t.Fatal(err)
		}
	})
}
