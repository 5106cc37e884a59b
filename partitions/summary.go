package partitions

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/partitions/tres"
)

// Summary prints what a configuration offers, for "sbatchd check": partitions,
// pools and images as tables. Warnings are the caller's to print; there is no
// secret in it.
func Summary(c *Config, w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: cluster %s, %d partitions, %d pools, %d nodes, %d images\n",
		c.Path, c.ClusterName, len(c.Partitions), len(c.Pools), len(c.Nodes), len(c.Images))
	table(&b, "PARTITION\tSTATE\tTIMELIMIT\tDEFAULTTIME\tNODES\tIMAGE\tPOOLS", c.Partitions, func(p *Partition) []string {
		name := p.Name
		if p.Default {
			name += "*"
		}
		image := ""
		if p.Image != nil {
			image = p.Image.Name
		}
		return []string{name, p.State, p.MaxTime.String(), p.DefaultTime.String(), nodeNames(p.Nodes), image, poolNames(p.Pools)}
	})
	table(&b, "POOL\tPROVIDER\tCAPACITY\tNODES\tGRES\tCPUS\tMEMORY\tMAXPRICE\tRUNTIME\tWORKDIR\tSUSPEND\tIMAGE", c.Pools, func(p *Pool) []string {
		provider, image := "", ""
		if p.Provider != nil {
			provider = p.Provider.Name + " (" + p.Provider.Type + ")"
		}
		if p.Image != nil {
			image = p.Image.Name
		}
		return []string{
			p.Name, provider, string(p.Capacity), fmt.Sprintf("%d-%d", p.MinNodes, p.MaxNodes), tres.FormatGresRange(p.Gres),
			orAny(p.CPUs, fmt.Sprint(p.CPUs)), orAny(p.RealMemory, p.RealMemory.String()), p.MaxPrice.String(),
			string(p.Runtime), string(p.Workdir), seconds(p.SuspendTime), image,
		}
	})
	table(&b, "IMAGE\tCUDA\tMINDRIVER\tREF", c.Images, func(i *Image) []string {
		return []string{i.Name, i.Cuda, i.MinDriver, i.Ref}
	})
	_, err := io.WriteString(w, b.String())
	return err
}

// table prints a heading and a line for each element; nothing for an empty list.
func table[T any](b *strings.Builder, heading string, list []T, cells func(T) []string) {
	if len(list) == 0 {
		return
	}
	tw := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "\n%s\n", heading)
	for _, v := range list {
		row := cells(v)
		for i, c := range row {
			if c == "" {
				row[i] = "-"
			}
		}
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	tw.Flush() //nolint:errcheck // a strings.Builder takes everything
}

func orAny[T comparable](v T, text string) string {
	var zero T
	if v == zero {
		return "any"
	}
	return text
}

func seconds(d time.Duration) string {
	if d == Never {
		return "never"
	}
	return fmt.Sprintf("%ds", int(d/time.Second))
}

func nodeNames(list []*Node) string {
	names := make([]string, len(list))
	for i, n := range list {
		names[i] = n.Name
	}
	return hostlist.CompressSet(names)
}

func poolNames(list []*Pool) string {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.Name
	}
	return strings.Join(names, ",")
}

// NeedsRestart names the keys that differ in other and that a running controller
// can't take over, in alphabetical order. A reload leaves their old values in
// force.
func (c *Config) NeedsRestart(other *Config) []string {
	var keys []string
	add := func(key string, same bool) {
		if !same {
			keys = append(keys, key)
		}
	}
	a, b := c.AccountingStorage, other.AccountingStorage
	add("AccountingStorage", a.Type == b.Type && a.Host == b.Host && a.Port == b.Port && a.User == b.User && a.Pass == b.Pass && a.Loc == b.Loc)
	add("AgentListen", slices.Equal(c.AgentListen, other.AgentListen))
	add("AuthAltParameters", c.AuthAlt == other.AuthAlt)
	add("CheckpointStore", c.CheckpointStore == other.CheckpointStore)
	add("ClusterName", c.ClusterName == other.ClusterName)
	add("RestListen", slices.Equal(c.RestListen, other.RestListen))
	add("SlurmUser", c.SlurmUser == other.SlurmUser)
	add("StateSaveLocation", c.StateSaveLocation == other.StateSaveLocation)
	return keys
}
