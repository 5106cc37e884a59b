package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// burstBill prints three records of a job: what it was really given, its result,
// and its cost run by run, useful and lost time apart.
func burstBill(c *ucli.Context, e *Env) error {
	id, err := jobArg(c)
	if err != nil {
		return err
	}
	b, err := fetch[wire.Bill](c, e, "/bill/"+id, nil)
	if b == nil {
		return err
	}
	e.printf("JOB %d %s of %s\n\nGIVEN\n", b.JobID, b.Name, b.User)
	if err := columns(e, func(w io.Writer) { billGiven(w, b) }); err != nil {
		return err
	}
	r := &b.Result
	e.printf("\nRESULT\n")
	e.printf("  State=%s ExitCode=%s Restarts=%d", r.State, r.ExitCode, r.Restarts)
	if r.Reason != "" && r.Reason != "None" {
		e.printf(" Reason=%s", r.Reason)
	}
	e.printf("\n  Output=%s\n", or(r.Output, "(null)"))
	if r.Error != "" && r.Error != r.Output {
		e.printf("  Error=%s\n", r.Error)
	}
	e.printf("  WorkDir=%s\n\nCOST\n", or(r.WorkDir, "(null)"))
	return columns(e, func(w io.Writer) { billCost(w, e, b) })
}

func billGiven(w io.Writer, b *wire.Bill) {
	fmt.Fprintln(w, "  RUN\tNODE\tPOOL\tINSTANCE_TYPE\tREGION\tKIND\tGPUS\tDRIVER\tIMAGE")
	for _, a := range b.Attempts {
		for _, h := range a.Hosts {
			kind := "-"
			switch {
			case h.Spot:
				kind = "spot"
			case h.Pool != "":
				kind = "ondemand"
			}
			image := or(h.ImageDigest, or(h.ImageRef, "-"))
			fmt.Fprintf(w, "  %d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.Restart, h.Node, or(h.Pool, "-"), or(h.InstanceType, "-"),
				or(h.Region, "-"), kind, or(strings.Join(h.GPUs, ","), "-"), or(h.Driver, "-"), image)
		}
	}
}

func billCost(w io.Writer, e *Env, b *wire.Bill) {
	fmt.Fprintln(w, "  RUN\tNODE\tSTATE\tEXIT\tSTART\tTIME\tUSEFUL\tLOST\tPRICE/H\tSHARE\tCOST\tUSEFUL\tLOST\tCHECKPOINT")
	for _, a := range b.Attempts {
		start := "Unknown"
		if !a.Start.IsZero() {
			start = tres.FormatTime(a.Start.In(e.Local))
		}
		saved := "-"
		switch {
		case a.Restored != 0 && a.Checkpoint != 0:
			saved = fmt.Sprintf("resumed %d, saved %d", a.Restored, a.Checkpoint)
		case a.Restored != 0:
			saved = fmt.Sprintf("resumed %d", a.Restored)
		case a.Checkpoint != 0:
			saved = fmt.Sprintf("saved %d", a.Checkpoint)
		}
		for _, h := range a.Hosts {
			fmt.Fprintf(w, "  %d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.0f%%\t%s\t%s\t%s\t%s\n", a.Restart, h.Node, a.State, a.ExitCode, start,
				clock(a.Seconds), clock(a.Useful), clock(a.Lost), money(h.PricePerHour, h.Currency), h.Share*100,
				money(h.Cost, h.Currency), money(h.UsefulCost, h.Currency), money(h.LostCost, h.Currency), saved)
		}
	}
	for _, t := range b.Totals {
		fmt.Fprintf(w, "  total\t\t\t\t\t\t\t\t\t\t%s\t%s\t%s\t\n", money(t.Cost, t.Currency), money(t.Useful, t.Currency), money(t.Lost, t.Currency))
	}
}

func clock(seconds float64) string {
	return tres.FormatDuration(time.Duration(seconds * float64(time.Second)).Round(time.Second))
}
