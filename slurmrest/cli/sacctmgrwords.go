package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// entity is a kind of record as sacctmgr's command line has it.
type entity struct {
	name, of   string // Account, and its word of an edit
	least      int
	conditions []word // the first one takes bare words
	settings   []word
	brief      bool // unknown conditions get a complaint of one line
	list       func(*manager, *spec)
	columns    string // of its list
}

func accountsOf(s *spec) *[]string   { return &s.where.Accounts }
func usersOf(s *spec) *[]string      { return &s.where.Users }
func clustersOf(s *spec) *[]string   { return &s.where.Clusters }
func namesOf(s *spec) *[]string      { return &s.where.Names }
func partitionsOf(s *spec) *[]string { return &s.where.Partitions }

// listing are the options of every list. This table and those below are made when
// they are asked for: the program of all commands starts without them.
var listing = sync.OnceValue(func() []word {
	return []word{
		{"format", 1, func(_ *manager, s *spec, _, v string) error { s.format = v; return nil }, false},
		{"tree", 4, on(func(s *spec) *bool { return &s.tree }), true},
		{"withassoc", 5, on(func(s *spec) *bool { return &s.withAssoc }), true},
		{"withcoordinators", 5, on(func(s *spec) *bool { return &s.withCoord }), true},
		{"withdeleted", 5, on(func(*spec) *bool { return new(bool) }), true}, // removed records are gone
		{"withrawqoslevel", 5, on(func(*spec) *bool { return new(bool) }), true},
		{"wopinfo", 4, on(func(*spec) *bool { return new(bool) }), true},
		{"woplimits", 4, on(func(s *spec) *bool { return &s.ownLimits }), true},
		{"wolimits", 3, on(func(*spec) *bool { return new(bool) }), true},
		{"onlydefaults", 4, on(func(s *spec) *bool { return &s.onlyDefaults }), true},
		{"withsubaccounts", 5, on(func(s *spec) *bool { return &s.subAccounts }), true},
		{"all_clusters", 5, on(func(*spec) *bool { return new(bool) }), true},
		{"all_time", 5, on(func(*spec) *bool { return new(bool) }), true},
	}
})

func ids(_ *manager, s *spec, _, value string) error {
	s.conditions++
	for _, w := range csv(value) {
		n, err := strconv.ParseUint(w, 10, 32)
		if err != nil {
			return errValue
		}
		s.where.IDs = append(s.where.IDs, uint32(n))
	}
	return nil
}

var placeWords = sync.OnceValue(func() []word {
	return []word{
		{"clusters", 1, lower(clustersOf), false},
		{"partitions", 3, into(partitionsOf), false},
		{"parents", 4, lower(func(s *spec) *[]string { return &s.where.Parents }), false},
		{"qoslevel", 1, lower(func(s *spec) *[]string { return &s.where.QOS }), false},
		{"defaultqos", 8, lower(func(s *spec) *[]string { return &s.where.DefaultQOS }), false},
		{"id", 2, ids, false},
	}
})

// levelWords are the levels that AdminLevel takes, by first letter.
func level(value string) (int, string, bool) {
	for i, name := range []string{"None", "Operator", "Administrator"} {
		if abbreviates(value, name, 1) {
			return i, name, true
		}
	}
	return 0, "", false
}

func whereLevel(_ *manager, s *spec, _, value string) error {
	s.conditions++
	if l, _, ok := level(value); ok {
		s.where.Levels = append(s.where.Levels, l)
	}
	return nil
}

// assocSettings are what an association can be set to, in the order in which an
// add says it.
var assocSettings = sync.OnceValue(func() []word {
	return []word{
		{"fairshare", 1, fairshare, false}, {"shares", 2, fairshare, false},
		{"grpcpumins", 7, resource("GrpTRESMins", "cpu"), false}, {"grpcpurunmins", 7, resource("GrpTRESRunMins", "cpu"), false},
		{"grpcpus", 4, resource("GrpTRES", "cpu"), false}, {"grpmemory", 4, resource("GrpTRES", "mem"), false}, {"grpnodes", 4, resource("GrpTRES", "node"), false},
		{"grpjobs", 7, limitNumber("GrpJobs", 2, "GrpJobs       "), false},
		{"grpjobsaccrue", 8, limitNumber("GrpJobsAccrue", 3, "GrpJobsAccrue            "), false},
		{"grpsubmitjobs", 4, limitNumber("GrpSubmitJobs", 4, "GrpSubmitJobs "), false},
		{"grptres", 7, resources("GrpTRES", 5, "GrpTRES       "), false},
		{"grptresmins", 8, resources("GrpTRESMins", 6, "GrpTRESMins   "), false},
		{"grptresrunmins", 8, resources("GrpTRESRunMins", 7, "GrpTRESRunMins"), false},
		{"grpwall", 4, wall("GrpWall", 8, "GrpWall       "), false},
		{"maxcpuminsperjob", 7, resource("MaxTRESMins", "cpu"), false}, {"maxcpusperjob", 7, resource("MaxTRES", "cpu"), false},
		{"maxnodesperjob", 4, resource("MaxTRES", "node"), false},
		{"maxjobs", 4, limitNumber("MaxJobs", 9, "MaxJobs       "), false},
		{"maxjobsaccrue", 8, limitNumber("MaxJobsAccrue", 10, "MaxJobsPrioAcc"), false},
		{"maxsubmitjobs", 4, limitNumber("MaxSubmitJobs", 11, "MaxSubmitJobs "), false},
		{"maxtresperjob", 7, resources("MaxTRES", 12, "MaxTRES       "), false},
		{"maxtrespernode", 11, resources("MaxTRESPerNode", 13, "MaxTRESPerNode"), false},
		{"maxtresminsperjob", 8, resources("MaxTRESMins", 14, "MaxTRESMins   "), false},
		{"maxtresrunmins", 8, resources("MaxTRESRunMins", 15, "MaxTRESRUNMins"), false},
		{"maxwalldurationperjob", 4, wall("MaxWall", 16, "MaxWall       "), false},
		{"minpriothreshold", 4, limitNumber("MinPrioThresh", 17, "MinPrioThresh "), false},
		{"parent", 4, sets(func(s *spec) **string { return &s.set.Parent }, 18, "Parent        "), false},
		{"priority", 3, limitNumber("Priority", 19, "Priority      "), false},
		{"qoslevel", 1, func(m *manager, s *spec, op, value string) (err error) {
			s.settings++
			s.set.QOS, err = m.qosList(s, op, value)
			s.say(20, "QOS           ", value)
			return err
		}, false},
		{"defaultqos", 8, defaultQOS, false},
		{"comment", 3, sets(func(s *spec) **string { return &s.set.Comment }, 22, "Comment       "), false},
	}
})

func fairshare(m *manager, s *spec, _, value string) error {
	s.settings++
	v := uint32(0x7fffffff) // Slurm's number for the parent's share
	if !strings.EqualFold(value, "parent") {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < -1 {
			m.fail()
			m.e.errorf("Invalid value for FairShare (%s)", value)
			return errValue
		}
		v = uint32(max(n, 1))
	}
	s.set.Shares = &v
	s.say(1, "Fairshare     ", value)
	return nil
}

func defaultQOS(m *manager, s *spec, _, value string) error {
	s.settings++
	value = strings.ToLower(value)
	if value == "-1" {
		value = ""
	}
	if value != "" && !contains(s.known.qos, value) {
		m.complain("You gave a bad default qos '%s'.  Use 'list qos' to get complete list.", value)
		return errSaid
	}
	s.set.DefaultQOS = &value
	s.say(21, "DefQOS        ", value)
	return nil
}

var accountEntity = sync.OnceValue(func() entity {
	return entity{
		name: "Account", of: "account", least: 4,
		conditions: slices.Concat([]word{{"names", 1, lower(accountsOf), false}, {"accounts", 2, lower(accountsOf), false}}, placeWords(), []word{
			{"descriptions", 3, into(func(s *spec) *[]string { return &s.where.Descriptions }), false},
			{"organizations", 1, into(func(s *spec) *[]string { return &s.where.Organizations }), false},
		}, listing()),
		settings: slices.Concat([]word{
			{"description", 3, sets(func(s *spec) **string { return &s.set.Description }, 0, ""), false},
			{"organization", 1, sets(func(s *spec) **string { return &s.set.Organization }, 0, ""), false},
			{"newname", 4, sets(func(s *spec) **string { return &s.set.NewName }, 0, ""), false},
			{"flags", 2, func(_ *manager, s *spec, _, value string) error {
				v := strings.EqualFold(value, "UsersAreCoords")
				s.settings++
				s.set.UsersCoords = &v
				return nil
			}, false},
		}, assocSettings()),
		list: (*manager).listAccounts, columns: "Account,Descr,Org",
	}
})

var userEntity = sync.OnceValue(func() entity {
	return entity{
		name: "User", of: "user", least: 1,
		conditions: slices.Concat([]word{
			{"names", 1, lower(usersOf), false}, {"users", 1, lower(usersOf), false}, {"accounts", 2, lower(accountsOf), false},
			{"adminlevel", 2, whereLevel, false},
			{"defaultaccount", 8, lower(func(s *spec) *[]string { return &s.where.DefaultAccounts }), false},
			{"defaultwckey", 8, lower(func(s *spec) *[]string { return &s.where.DefaultWCKeys }), false},
			{"wckeys", 1, lower(func(s *spec) *[]string { return &s.where.WCKeys }), false},
		}, placeWords(), listing()),
		settings: slices.Concat([]word{
			{"adminlevel", 2, func(_ *manager, s *spec, _, value string) error {
				s.settings++
				if l, _, ok := level(value); ok {
					s.set.Level = &l
				}
				return nil
			}, false},
			{"defaultaccount", 8, sets(func(s *spec) **string { return &s.set.DefaultAccount }, 0, ""), false},
			{"defaultwckey", 8, sets(func(s *spec) **string { return &s.set.DefaultWCKey }, 0, ""), false},
			{"newname", 4, sets(func(s *spec) **string { return &s.set.NewName }, 0, ""), false},
		}, assocSettings()),
		list: (*manager).listUsers, columns: "User,DefaultA,Admin",
	}
})

var assocEntity = sync.OnceValue(func() entity {
	return entity{
		name: "Association", of: "assoc", least: 2, brief: true,
		conditions: slices.Concat([]word{{"ids", 2, ids, false}, {"accounts", 2, lower(accountsOf), false}, {"users", 1, lower(usersOf), false}}, placeWords(), listing()),
		list:       (*manager).listAssocs,
		columns: "Cluster,Account,User,Partition,Share,Priority,GrpJobs,GrpTRES,GrpSubmit,GrpWall,GrpTRESMins,MaxJobs,MaxTRES,MaxTRESPerNode," +
			"MaxSubmit,MaxWall,MaxTRESMins,QOS,DefaultQOS,GrpTRESRunMins",
	}
})

var clusterEntity = sync.OnceValue(func() entity {
	return entity{
		name: "Cluster", of: "cluster", least: 2,
		conditions: slices.Concat([]word{{"names", 1, lower(namesOf), false}, {"clusters", 1, lower(namesOf), false}}, listing()),
		settings:   assocSettings(),
		list:       (*manager).listClusters,
		columns:    "Cluster,ControlHost,ControlPort,RPC,Share,GrpJobs,GrpTRES,GrpSubmit,MaxJobs,MaxTRES,MaxSubmit,MaxWall,QOS,DefaultQOS",
	}
})

var coordEntity = sync.OnceValue(func() entity {
	return entity{
		name: "Coordinator", of: "coordinator", least: 2,
		conditions: []word{{"names", 1, lower(usersOf), false}, {"users", 1, lower(usersOf), false}, {"accounts", 1, lower(accountsOf), false}},
	}
})

var wckeyEntity = sync.OnceValue(func() entity {
	return entity{
		name: "WCKey", of: "wckey", least: 1,
		conditions: slices.Concat([]word{{"names", 1, lower(namesOf), false}, {"wckeys", 1, lower(namesOf), false}, {"users", 1, lower(usersOf), false}, {"clusters", 1, lower(clustersOf), false}, {"id", 1, ids, false}}, listing()),
		list:       (*manager).listWCKeys, columns: "WCKey,Cluster,User",
	}
})

var tresEntity = sync.OnceValue(func() entity {
	return entity{
		name: "TRES", of: "tres", least: 2,
		conditions: slices.Concat([]word{{"names", 1, into(namesOf), false}, {"type", 1, into(func(s *spec) *[]string { return &s.types }), false}, {"id", 1, ids, false}}, listing()),
		list:       (*manager).listTRES, columns: "Type,Name%15,ID",
	}
})

var txnEntity = sync.OnceValue(func() entity {
	return entity{
		name: "Transaction", of: "txn", least: 2,
		conditions: slices.Concat([]word{
			{"ids", 2, ids, false}, {"action", 4, into(func(s *spec) *[]string { return &s.actions }), false}, {"actors", 4, into(func(s *spec) *[]string { return &s.actors }), false},
			{"accounts", 3, lower(accountsOf), false}, {"users", 1, lower(usersOf), false}, {"clusters", 3, lower(clustersOf), false},
			{"start", 3, func(_ *manager, s *spec, _, v string) error { s.start = v; return nil }, false},
			{"end", 3, func(_ *manager, s *spec, _, v string) error { s.end = v; return nil }, false},
		}, listing()),
		list: (*manager).listTxns, columns: "Time,Action,Actor,Where,Info",
	}
})

var anything = sync.OnceValue(func() []word {
	return slices.Concat([]word{
		{"names", 1, into(namesOf), false}, {"clusters", 1, lower(clustersOf), false}, {"accounts", 1, lower(accountsOf), false}, {"users", 1, lower(usersOf), false},
		{"nodes", 1, into(namesOf), false}, {"start", 2, into(namesOf), false}, {"end", 1, into(namesOf), false}, {"states", 2, into(namesOf), false},
		{"events", 2, into(namesOf), false}, {"reason", 1, into(namesOf), false}, {"condflags", 2, into(namesOf), false}, {"id", 1, ids, false},
	}, listing())
})

var emptyEntities = sync.OnceValue(func() []entity {
	return []entity{
		{name: "Federation", least: 1, conditions: anything(), list: (*manager).listNone, columns: "Federation,Cluster,ID%2,Features,FedState"},
		{name: "Problem", least: 1, conditions: anything(), list: (*manager).listNone, columns: "Cluster,Account,User,Problem"},
		{name: "Reservation", least: 4, conditions: anything(), list: (*manager).listNone, columns: "Cluster,Name%15,TRES%30,TimeStart,TimeEnd,UnusedWall"},
		{name: "Resource", least: 4, conditions: anything(), list: (*manager).listNone, columns: "Name,Server,Type,Count,LastConsumed,Allocated,ServerType,Flags"},
		{name: "Instance", least: 1, conditions: anything(), list: (*manager).listNone, columns: "Cluster,NodeNames,TimeStart,TimeEnd,InstanceId,InstanceType,Extra"},
		{name: "Event", least: 1, conditions: anything(), list: (*manager).listEvents, columns: "Cluster,NodeName,TimeStart,TimeEnd,State,Reason,User"},
		{name: "RunawayJobs", least: 2, conditions: anything(), list: (*manager).listRunaway},
		{name: "Configuration", least: 2, conditions: anything(), list: (*manager).listConfig},
		{name: "Stats", least: 2, conditions: anything(), list: (*manager).listStats},
	}
})

// entities are what a list can be asked for, in Slurm's order of looking.
var entities = sync.OnceValue(func() []entity {
	return slices.Concat([]entity{accountEntity(), assocEntity(), clusterEntity()}, emptyEntities(), []entity{qosEntity(), txnEntity(), tresEntity(), userEntity(), wckeyEntity()})
})

func entityOf(list []entity, word string) *entity {
	for i := range list {
		if abbreviates(word, list[i].name, list[i].least) || strings.EqualFold(word, list[i].name+"s") {
			return &list[i]
		}
	}
	return nil
}

// wallText prints minutes as sacctmgr does: [days-]hh:mm:ss.
func wallText(minutes int64) string {
	d, h, m := minutes/1440, minutes/60%24, minutes%60
	if d > 0 {
		return fmt.Sprintf("%d-%02d:%02d:00", d, h, m)
	}
	return fmt.Sprintf("%02d:%02d:00", h, m)
}

// secondsText prints seconds in the same way.
func secondsText(sec int64) string {
	t := wallText(sec / 60)
	return fmt.Sprintf("%s%02d", t[:len(t)-2], sec%60)
}

// limitText prints a list of TRES that the API sent.
func limitText(list []wire.TRES) string {
	t := tres.TRES{}
	for i := range list {
		t[tresName(&list[i])] = uint64(list[i].Count)
	}
	return t.Limits()
}
