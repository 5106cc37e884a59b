package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// spec is a parsed list of specifications: conditions and settings.
type spec struct {
	where  wire.AcctWhere
	set    wire.AcctSettings
	format string
	known  *known // what of QOS and TRES exists

	withAssoc, withCoord, tree, ownLimits, onlyDefaults, subAccounts bool
	conditions, settings                                             int // how many were given
	types, actions, actors                                           []string
	start, end, file                                                 string
	clean                                                            bool
	brief                                                            bool // complaints are one line
	printed                                                          []setting
}

// known are the QOS and TRES that values may name.
type known struct{ qos, tres []string }

// setting is a line of what an add says it sets.
type setting struct {
	order       int
	label, text string
}

// errValue is a value that its option has complained about.
var errValue = errors.New("bad value")

// errSaid is one whose complaint says it all.
var errSaid = errors.New("said")

// word is one option of sacctmgr: least is how many letters it needs.
type word struct {
	name  string
	least int
	set   func(m *manager, s *spec, op, value string) error
	flag  bool // takes no value
}

// find looks an option up by its possibly shortened name.
func find(list []word, key string) *word {
	for i := range list {
		if abbreviates(key, list[i].name, list[i].least) {
			return &list[i]
		}
	}
	return nil
}

// split parts key=value, key+=value and key-=value; a bare word is a value.
func split(arg string) (key, op, value string) {
	key, value, ok := strings.Cut(arg, "=")
	if !ok {
		return "", "=", arg
	}
	op = "="
	if n := len(key); n > 0 && (key[n-1] == '+' || key[n-1] == '-') {
		key, op = key[:n-1], key[n-1:]
	}
	return key, op, strings.Trim(value, `"'`)
}

func csv(value string) []string {
	var out []string
	for _, w := range strings.Split(value, ",") {
		if w = strings.Trim(strings.TrimSpace(w), `"'`); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// into makes an option that appends to a list of the conditions.
func into(list func(*spec) *[]string) func(*manager, *spec, string, string) error {
	return func(_ *manager, s *spec, _, value string) error {
		s.conditions++
		to := list(s)
		*to = append(*to, csv(value)...)
		return nil
	}
}

// lower is into with names that Slurm keeps in lower case.
func lower(list func(*spec) *[]string) func(*manager, *spec, string, string) error {
	add := into(list)
	return func(m *manager, s *spec, op, value string) error { return add(m, s, op, strings.ToLower(value)) }
}

// on makes an option without a value.
func on(flag func(*spec) *bool) func(*manager, *spec, string, string) error {
	return func(_ *manager, s *spec, _, _ string) error {
		*flag(s) = true
		return nil
	}
}

// sets makes an option that sets a text.
func sets(to func(*spec) **string, order int, label string) func(*manager, *spec, string, string) error {
	return func(_ *manager, s *spec, _, value string) error {
		s.settings++
		*to(s) = &value
		s.say(order, label, value)
		return nil
	}
}

func (s *spec) say(order int, label, text string) {
	if label != "" {
		s.printed = append(s.printed, setting{order, label, text})
	}
}

// limitNumber makes an option that sets a limit that is a number.
func limitNumber(name string, order int, label string) func(*manager, *spec, string, string) error {
	return func(m *manager, s *spec, _, value string) error {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < -1 || n >= 1<<32-2 {
			m.fail()
			m.e.errorf("Invalid value for %s (%s)", name, value)
			return errValue
		}
		s.limit(name, n)
		s.say(order, label, clearable(n, value))
		return nil
	}
}

func clearable(n int64, text string) string {
	if n < 0 {
		return "NONE"
	}
	return text
}

func (s *spec) limit(name string, n int64) {
	s.settings++
	if s.set.Limits.Numbers == nil {
		s.set.Limits.Numbers = map[string]*uint32{}
	}
	s.set.Limits.Numbers[name] = nil
	if n >= 0 {
		v := uint32(n)
		s.set.Limits.Numbers[name] = &v
	}
}

// wall makes an option that sets a wall time, in minutes.
func wall(name string, order int, label string) func(*manager, *spec, string, string) error {
	return func(m *manager, s *spec, _, value string) error {
		if value == "-1" {
			s.limit(name, -1)
			s.say(order, label, "NONE")
			return nil
		}
		t, err := tres.ParseTimeLimit(value)
		if err != nil {
			m.complain(" Bad %s time format: %s=%s", name, strings.ToLower(name), value)
			return errValue
		}
		s.limit(name, int64(t))
		s.say(order, label, wallText(int64(t)))
		return nil
	}
}

// resources makes an option that sets a list of TRES.
func resources(name string, order int, label string) func(*manager, *spec, string, string) error {
	return func(m *manager, s *spec, _, value string) error {
		t := tres.TRES{}
		for _, item := range csv(value) {
			key, _, told := strings.Cut(item, "=")
			typ, _, _ := strings.Cut(strings.ToLower(key), "/")
			one, err := tres.ParseTRES(item)
			switch {
			case !told:
				m.fail()
				m.e.errorf("slurmdb_format_tres_str: no TRES id found for %s", item)
				return errValue
			case !s.known.hasTRES(strings.ToLower(key)):
				m.fail()
				m.e.errorf("slurmdb_format_tres_str: no TRES known by type %s", typ)
				return errValue
			case err != nil:
				m.fail()
				m.e.errorf("slurmdb_format_tres_str: no value given as TRES type/id.")
				return errValue
			}
			for n, v := range one {
				t[n] = v
			}
		}
		s.resources(name, t)
		s.say(order, label, t.Limits())
		return nil
	}
}

// resource makes an option that sets one TRES of a list: GrpCPUs and the like.
func resource(name, of string) func(*manager, *spec, string, string) error {
	return func(m *manager, s *spec, _, value string) error {
		return resources(name, 0, "")(m, s, "=", of+"="+value)
	}
}

func (s *spec) resources(name string, t tres.TRES) {
	s.settings++
	if s.set.Limits.Sets == nil {
		s.set.Limits.Sets = map[string]tres.TRES{}
	}
	have := s.set.Limits.Sets[name].Clone()
	for n, v := range t {
		have[n] = v
	}
	s.set.Limits.Sets[name] = have
}

func (n *known) hasTRES(name string) bool {
	for _, t := range n.tres {
		if t == name {
			return true
		}
	}
	return false
}

// qosList reads names of QOS for an option; names may carry + or - of their own.
func (m *manager) qosList(s *spec, op, value string) (*wire.AcctList, error) {
	l := &wire.AcctList{Op: op}
	for _, n := range csv(value) {
		if n[0] == '+' || n[0] == '-' {
			l.Op, n = n[:1], n[1:]
		}
		if n = strings.ToLower(n); !contains(s.known.qos, n) {
			m.fail()
			m.e.errorf("You gave a bad qos '%s'. Valid QOS's are %s", n, strings.Join(s.known.qos, ","))
			return nil, errValue
		}
		l.Names = append(l.Names, n)
	}
	return l, nil
}

func contains(list []string, w string) bool {
	for _, x := range list {
		if x == w {
			return true
		}
	}
	return false
}

// float makes an option that sets a real number, -1 clearing it.
func float(to func(*spec) **float64, order int, label string) func(*manager, *spec, string, string) error {
	return func(m *manager, s *spec, _, value string) error {
		f, err := strconv.ParseFloat(value, 64)
		if err != nil {
			m.fail()
			m.e.errorf("%s value (%s) is not a valid number", strings.TrimSpace(label), value)
			return errSaid
		}
		s.settings++
		*to(s) = &f
		s.say(order, label, fmt.Sprintf("%.4f", f))
		return nil
	}
}

// parse reads specifications. Words of settings count behind "set", those of
// conditions behind "where"; an add takes both anywhere.
func (m *manager) parse(args []string, en *entity, mode string) (*spec, bool) {
	conditions, settings := en.conditions, en.settings
	if mode == "list" {
		settings, mode = nil, "where"
	}
	s := &spec{known: &known{}, brief: en.brief && mode == "where" || en.name == "User" && mode == "add"}
	if settings != nil && !m.names(s.known) {
		return nil, false
	}
	at := mode
	for _, arg := range args {
		switch strings.ToLower(arg) {
		case "set":
			at = "set"
			continue
		case "where":
			at = "where"
			continue
		}
		key, op, value := split(arg)
		if !m.one(s, conditions, settings, at, arg, key, op, value) {
			return nil, false
		}
	}
	return s, true
}

func (m *manager) one(s *spec, conditions, settings []word, at, arg, key, op, value string) bool {
	lists := [][]word{conditions}
	switch at {
	case "set":
		lists = [][]word{settings}
	case "add":
		lists = [][]word{settings, conditions}
	}
	var w *word
	for _, l := range lists {
		if w == nil && key != "" {
			w = find(l, key)
		}
	}
	if key == "" && at != "set" {
		if w = find(conditions, value); w == nil || !w.flag {
			w = &conditions[0] // a bare word is a name
		}
	}
	if w != nil {
		switch err := w.set(m, s, op, value); {
		case err == nil:
			return true
		case errors.Is(err, errSaid):
			return false
		}
	}
	switch {
	case at == "set", at == "add" && !s.brief:
		m.complain(" Unknown option: %s\n Use keyword 'where' to modify condition", arg)
	case at == "add":
		m.complain(" Unknown option: %s", arg)
	case s.brief:
		m.complain(" Unknown condition: %s", arg)
	default:
		m.complain(" Unknown condition: %s\n Use keyword 'set' to modify value", arg)
	}
	return false
}

// names asks which QOS and TRES there are.
func (m *manager) names(n *known) bool {
	var q wire.SlurmdbdQOSResp
	var t wire.TRESResp
	if !m.get("/qos/", nil, &q) || !m.get("/tres/", nil, &t) {
		return false
	}
	for i := range q.QOS {
		n.qos = append(n.qos, q.QOS[i].Name)
	}
	for i := range t.TRES {
		n.tres = append(n.tres, tresName(&t.TRES[i]))
	}
	return true
}

func tresName(t *wire.TRES) string {
	if t.Name == "" {
		return t.Type
	}
	return t.Type + "/" + t.Name
}
