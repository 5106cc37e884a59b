package server

import (
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// Compatible is the Slurm release whose API is served. Clients choose by it
// what they may ask for.
const Compatible = "26.05.3"

// envelope appends meta, errors and warnings, without a comma at the end.
func (c *call) envelope(b []byte) []byte {
	plugin := "slurmctld"
	if c.db {
		plugin = "slurmdbd"
	}
	major, minor, micro := splitRelease(Compatible)
	b = append(b, `"meta":{"plugin":{"type":"openapi/`...)
	b = append(b, plugin...)
	b = append(b, `","name":"sbatchd `...)
	b = append(b, c.s.cfg.Release...)
	b = append(b, `","data_parser":"data_parser/`...)
	b = append(b, c.v.Name...)
	b = append(b, `","accounting_storage":"accounting_storage/slurmdbd"},"client":{"source":`...)
	b = wire.AppendString(b, c.r.RemoteAddr)
	b = append(b, `,"user":`...)
	b = wire.AppendString(b, c.who.User)
	b = append(b, `,"group":`...)
	b = wire.AppendString(b, c.group())
	b = append(b, `},"command":[],"slurm":{"version":{"major":"`...)
	b = append(b, major...)
	b = append(b, `","micro":"`...)
	b = append(b, micro...)
	b = append(b, `","minor":"`...)
	b = append(b, minor...)
	b = append(b, `"},"release":"`...)
	b = append(b, Compatible...)
	b = append(b, `","cluster":`...)
	b = wire.AppendString(b, c.s.cfg.Controller.Snapshot().Config.ClusterName)
	b = append(b, `}},"errors":[`...)
	for i := range c.errors {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.Append(b, &c.errors[i])
	}
	b = append(b, `],"warnings":[`...)
	for i := range c.warnings {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.Append(b, &c.warnings[i])
	}
	return append(b, ']')
}

// group is the caller's group name.
func (c *call) group() string {
	if c.s.cfg.Users == nil {
		return strconv.FormatUint(uint64(c.who.GID), 10)
	}
	return c.s.cfg.Users.GroupName(c.r.Context(), c.who.GID)
}

func splitRelease(release string) (major, minor, micro string) {
	major, rest, _ := strings.Cut(release, ".")
	minor, micro, _ = strings.Cut(rest, ".")
	return major, minor, micro
}
