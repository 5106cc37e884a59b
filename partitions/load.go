package partitions

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/partitions/slurmconf"
)

// FileName is the main file of a configuration folder.
const FileName = "slurm.conf"

// Load reads and checks a configuration: a slurm.conf, or a folder that holds
// one. On success the Config is complete. Otherwise the error joins one Fault
// for each thing that is wrong (see Faults), in the order of the files.
func Load(path string) (*Config, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, FileName)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("load config: %w", err)
	}
	doc, faults := slurmconf.Read(path)
	l := &loader{cfg: &Config{Path: path, Files: doc.Files}, dir: filepath.Dir(path)}
	for _, f := range faults {
		l.fault(Position{f.File, f.Line}, "%s", f.Msg)
	}
	if len(doc.Files) > 0 {
		l.load(doc)
	}
	l.order(l.faults)
	l.order(l.cfg.Warnings)
	if len(l.faults) > 0 {
		errs := make([]error, len(l.faults))
		for i, f := range l.faults {
			errs[i] = f
		}
		return nil, errors.Join(errs...)
	}
	return l.cfg, nil
}

// Faults takes Load's error apart. An error that is no Fault gets no file.
func Faults(err error) []Fault {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		var list []Fault
		for _, e := range joined.Unwrap() {
			list = append(list, Faults(e)...)
		}
		return list
	}
	if f := (Fault{}); errors.As(err, &f) {
		return []Fault{f}
	}
	return []Fault{{Msg: err.Error()}}
}

// loader is one run of Load.
type loader struct {
	cfg    *Config
	dir    string // folder of the main file
	faults []Fault
	warned map[string]bool

	global   *section
	repeated map[string][]slurmconf.Pair // of repeatable keys
	records  map[*kind][]*section
	defaults map[*kind]map[string]slurmconf.Pair
	nodeSets map[string][]*Node
}

func (l *loader) fault(at Position, format string, args ...any) {
	l.faults = append(l.faults, Fault{File: at.File, Line: at.Line, Msg: fmt.Sprintf(format, args...)})
}

func (l *loader) warn(at Position, format string, args ...any) {
	l.cfg.Warnings = append(l.cfg.Warnings, Fault{File: at.File, Line: at.Line, Msg: fmt.Sprintf(format, args...)})
}

// order sorts faults by file, in reading order, then line.
func (l *loader) order(list []Fault) {
	slices.SortStableFunc(list, func(a, b Fault) int {
		return cmp.Or(
			cmp.Compare(slices.Index(l.cfg.Files, a.File), slices.Index(l.cfg.Files, b.File)),
			cmp.Compare(a.Line, b.Line),
		)
	})
}

// load turns the statements into the Config. Later records refer to earlier
// kinds, whatever their order in the files.
func (l *loader) load(doc *slurmconf.Document) {
	l.warned = map[string]bool{}
	l.repeated = map[string][]slurmconf.Pair{}
	l.records = map[*kind][]*section{}
	l.defaults = map[*kind]map[string]slurmconf.Pair{}
	l.nodeSets = map[string][]*Node{}
	l.global = &section{l: l, kind: globalKind, at: Position{File: l.cfg.Path}, pairs: map[string]slurmconf.Pair{}}
	for _, st := range doc.Statements {
		l.statement(st)
	}
	l.globals()
	l.images()
	l.cfg.index()
	l.providers()
	l.cfg.index()
	l.pools()
	l.nodes()
	l.cfg.index()
	l.partitionRecords()
	l.cfg.index()
	l.aliases()
	l.check()
	l.gresConf(filepath.Join(l.dir, "gres.conf"))
}

// statement sorts a line's pairs: global ones up to the first that starts a
// record, which takes the rest.
func (l *loader) statement(st slurmconf.Statement) {
	for i, p := range st {
		if p.Op != "" {
			l.fault(posOf(p), "%s: operator %s= is not known here", p.Key, p.Op)
		}
		if k := kinds[strings.ToLower(p.Key)]; k != nil {
			l.record(k, st[i:])
			return
		}
		l.globalPair(p)
	}
}

// known reports whether the kind has the pair's key; it reports unknown ones,
// and once each those that only Slurm acts on.
func (l *loader) known(k *kind, p slurmconf.Pair) bool {
	key := k.keys[strings.ToLower(p.Key)]
	if key == nil {
		l.fault(posOf(p), "Parsing error at unrecognized key: %s", p.Key)
		return false
	}
	if key.acted || (k.foreign && key.name != k.name) {
		return true
	}
	name := key.name
	if k.name != "" && k.name != name {
		name = k.name + " " + name
	}
	if !l.warned[name] {
		l.warned[name] = true
		l.warn(posOf(p), "%s is known to Slurm and has no effect here", name)
	}
	return true
}

func (l *loader) globalPair(p slurmconf.Pair) {
	if !l.known(globalKind, p) {
		return
	}
	low := strings.ToLower(p.Key)
	if repeatable[low] {
		l.repeated[low] = append(l.repeated[low], p)
	} else if old, twice := l.global.pairs[low]; twice {
		l.warn(posOf(p), "%s was set before, at %s; this one counts", globalKind.keys[low].name, posOf(old))
	}
	l.global.pairs[low] = p
}

// record reads a record line. DEFAULT lines change what following lines of that
// kind start from.
func (l *loader) record(k *kind, st []slurmconf.Pair) {
	s := &section{l: l, kind: k, name: st[0].Value, at: posOf(st[0]), pairs: map[string]slurmconf.Pair{}}
	maps.Copy(s.pairs, l.defaults[k])
	seen := map[string]bool{}
	for _, p := range st {
		low := strings.ToLower(p.Key)
		if !l.known(k, p) {
			continue
		}
		if seen[low] {
			l.fault(posOf(p), "%s is given twice for %s=%s", p.Key, k.name, s.name)
		}
		seen[low] = true
		s.pairs[low] = p
	}
	if strings.EqualFold(s.name, "DEFAULT") {
		l.defaults[k] = s.pairs
		return
	}
	l.records[k] = append(l.records[k], s)
}

// readable tells why a file can't be read, without its name.
func readable(path string) error {
	info, err := os.Stat(path)
	if pe := new(fs.PathError); errors.As(err, &pe) {
		return pe.Err
	}
	if err == nil && info.IsDir() {
		return errors.New("is a directory")
	}
	return err
}

// secret is readable for a file that only its owner may read.
func secret(path string, allowed fs.FileMode) error {
	if err := readable(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&^allowed != 0 {
		return fmt.Errorf("its mode is %04o, must be %04o", mode, allowed)
	}
	return nil
}
