package server

import (
	"strings"

	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// getDBDiag answers slurmdb's GET /diag. Records are in the controller's own
// store: there are no rollups and no messages to count.
func getDBDiag(c *call) {
	if c.who.Role != auth.Admin && c.s.cfg.Controller.Snapshot().Acct.Level(c.who.User) < assoc.LevelOperator {
		c.fail(errno.AccessDenied, "stats query failed", "slurmdb_get_stats")
		c.reply(func(b []byte) []byte { return append(b, `"statistics":{},`...) })
		return
	}
	stats := wire.StatsRec{TimeStart: c.s.started.Unix()}
	c.reply(func(b []byte) []byte {
		return append(c.record(append(b, `"statistics":`...), "stats_rec", &stats), ',')
	})
}

// getDBConf answers slurmdb's GET /conf: what slurmdbd.conf would say of us.
func getDBConf(c *call) {
	const never = `{"set":false,"hours":0,"days":0,"months":0,"archive":false}`
	host := string(wire.AppendString(nil, c.s.cfg.Hostname))
	var purge strings.Builder
	for _, what := range []string{"Event", "Job", "Resv", "Step", "Suspend", "TXN", "Usage", "JobScript", "JobEnv"} {
		purge.WriteString(`"Purge` + what + `After":` + never + `,`)
	}
	c.reply(func(b []byte) []byte {
		return append(b, `"slurmdbd_conf":{"ArchiveDir":"/tmp","ArchiveScript":"","CommitDelay":0,"DbdAddr":`+host+
			`,"DbdBackupHost":"","DbdHost":`+host+`,"DbdPort":0,"DebugLevel":"info","DefaultQOS":"","Flags":[],"LogFile":"",`+
			`"MaxPurgeLimit":50000,"MaxQueryTimeRange":"UNLIMITED","Parameters":[],"PersistConnFlags":[],"PidFile":"",`+purge.String()+
			`"StorageLoc":"","StoragePassScript":"","StorageUser":"","DebugLevelSyslog":"","TrackWCKey":false,"TrackSlurmctldDown":false},`...)
	})
}
