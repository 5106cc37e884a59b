package option

import (
	"bytes"
	"strconv"
	"strings"
)

// foreignLines is how many lines that are no comments the search for other
// systems' directives goes on for.
const foreignLines = 100

// foreignDirectives translates the directives of a script that was written for
// PBS or LSF; only one of the two counts, the one met first.
func foreignDirectives(body []byte, name string) ([]setting, error) {
	if !bytes.Contains(body, []byte("#PBS")) && !bytes.Contains(body, []byte("#BSUB")) {
		return nil, nil
	}
	var magic []byte
	var words []string
	commands := 0
	for number := 1; len(body) > 0 && commands <= foreignLines; number++ {
		line, rest, _ := bytes.Cut(body, []byte("\n"))
		body = rest
		if len(line) > 0 && line[0] != '#' {
			commands++
		}
		for _, m := range [][]byte{[]byte("#PBS"), []byte("#BSUB")} {
			if magic == nil && bytes.HasPrefix(line, m) {
				magic = m
			}
		}
		if magic == nil || !bytes.HasPrefix(line, magic) {
			continue
		}
		for text := line[len(magic):]; ; {
			word, left, ok, err := directiveWord(text, name, number)
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			text = left
			words = append(words, word)
		}
	}
	if string(magic) == "#BSUB" {
		return lsf(words)
	}
	return pbs(words)
}

// set is a Slurm option that a foreign one comes to.
func set(long, value string) setting {
	o := find(long)
	return setting{o, Word{Key: o.index, Value: value, HasArg: value != ""}}
}

// foreignSet are single letters; upper case ones with a value unless listed.
func foreignSet(withValue, alone string) *Set {
	var names []Name
	for _, c := range withValue {
		names = append(names, Name{Short: byte(c), Arg: Required, Key: int(c)})
	}
	for _, c := range alone {
		names = append(names, Name{Short: byte(c), Key: int(c)})
	}
	return NewSet(names)
}

// pbs translates qsub's options.
func pbs(words []string) ([]setting, error) {
	var out []setting
	sc := foreignSet("aAcCdeJjklmMNopqrStuvwW", "hIVzXx").Scan(words, false)
	for {
		w, ok, err := sc.Next()
		if err != nil {
			return nil, Misspelled(err, "sbatch", ExitUsage)
		}
		if !ok {
			break
		}
		switch byte(w.Key) {
		case 'a':
			out = append(out, set("begin", w.Value))
		case 'A':
			out = append(out, set("account", w.Value))
		case 'd', 'w':
			out = append(out, set("chdir", w.Value))
		case 'e':
			out = append(out, set("error", w.Value))
		case 'h':
			out = append(out, set("hold", ""))
		case 'J', 't':
			out = append(out, set("array", w.Value))
		case 'l':
			out = append(out, pbsResources(w.Value)...)
		case 'm':
			if events := pbsMail(w.Value); events != "" {
				out = append(out, set("mail-type", events))
			}
		case 'M':
			out = append(out, set("mail-user", w.Value))
		case 'N':
			out = append(out, set("job-name", w.Value))
		case 'o':
			out = append(out, set("output", w.Value))
		case 'p':
			out = append(out, set("nice", w.Value))
		case 'q':
			out = append(out, set("partition", w.Value))
		case 'v':
			out = append(out, set("export", w.Value))
		case 'W':
			if d, ok := strings.CutPrefix(w.Value, "depend="); ok {
				out = append(out, set("dependency", d))
			}
		} // -c -C -I -j -k -r -S -u -V -z have no effect
	}
	if rest := sc.Rest(); len(rest) > 0 {
		return nil, strayWord(rest[0])
	}
	return out, nil
}

func pbsMail(letters string) string {
	var events []string
	for _, c := range letters {
		switch c {
		case 'a':
			events = append(events, "FAIL")
		case 'b':
			events = append(events, "BEGIN")
		case 'e':
			events = append(events, "END")
		}
	}
	return strings.Join(events, ",")
}

// pbsResources reads -l: name=value with commas between, or a chunk list.
func pbsResources(list string) []setting {
	var out []setting
	for _, item := range strings.Split(list, ",") {
		name, value, _ := strings.Cut(item, "=")
		switch name {
		case "walltime", "cput", "pcput":
			out = append(out, set("time", value))
		case "mem", "pmem":
			out = append(out, set("mem", strings.TrimRight(value, "bB")))
		case "file":
			out = append(out, set("tmp", strings.TrimRight(value, "bB")))
		case "nice":
			out = append(out, set("nice", value))
		case "nodes", "select":
			out = append(out, pbsNodes(value, name == "select")...)
		case "accelerator":
			if strings.EqualFold(value, "true") {
				out = append(out, set("gres", "gpu"))
			}
		case "ncpus":
			out = append(out, set("mincpus", value))
		case "mpiprocs":
			out = append(out, set("ntasks-per-node", value))
		case "naccelerators":
			out = append(out, set("gres", "gpu:"+value))
		}
	}
	return out
}

// pbsNodes reads N:ppn=P:gpus=G of -l nodes and N:ncpus=C:mpiprocs=P of -l
// select. Host names instead of a number become a node list.
func pbsNodes(value string, chunk bool) []setting {
	var out []setting
	parts := strings.Split(value, ":")
	nodes, numbered := int64(1), false
	if n, err := strconv.ParseInt(parts[0], 10, 31); err == nil {
		nodes, numbered = n, true
		out = append(out, set("nodes", parts[0]))
	} else if strings.Contains(value, "+") || !strings.Contains(parts[0], "=") {
		return append(out, set("nodelist", strings.ReplaceAll(value, "+", ",")))
	}
	for i, p := range parts {
		if i == 0 && numbered {
			continue
		}
		name, v, _ := strings.Cut(p, "=")
		switch name {
		case "ppn":
			if n, err := strconv.ParseInt(v, 10, 31); err == nil && n < 1<<20 && nodes < 1<<20 {
				out = append(out, set("ntasks", strconv.FormatInt(n*nodes, 10)))
			}
		case "gpus", "ngpus":
			out = append(out, set("gpus-per-node", v))
		case "ncpus":
			if chunk {
				out = append(out, set("mincpus", v))
			}
		case "mpiprocs":
			out = append(out, set("ntasks-per-node", v))
		case "mem":
			out = append(out, set("mem", strings.TrimRight(v, "bB")))
		}
	}
	return out
}

// lsf translates bsub's options. Its memory is in KB unless it says otherwise.
func lsf(words []string) ([]setting, error) {
	for i, w := range words {
		if w == "-cwd" {
			words[i] = "-C"
		}
	}
	var out []setting
	sc := foreignSet("CeJmMnoqWRPu", "xNB").Scan(words, false)
	for {
		w, ok, err := sc.Next()
		if err != nil {
			return nil, Misspelled(err, "sbatch", ExitUsage)
		}
		if !ok {
			break
		}
		switch byte(w.Key) {
		case 'C':
			out = append(out, set("chdir", w.Value))
		case 'e':
			out = append(out, set("error", w.Value))
		case 'J':
			out = append(out, set("job-name", w.Value))
		case 'm':
			out = append(out, set("nodelist", strings.ReplaceAll(w.Value, " ", ",")))
		case 'M':
			if n := len(w.Value); n > 0 && w.Value[n-1] >= '0' && w.Value[n-1] <= '9' {
				w.Value += "K"
			}
			out = append(out, set("mem-per-cpu", w.Value))
		case 'n':
			if _, most, ok := strings.Cut(w.Value, ","); ok {
				w.Value = most
			}
			out = append(out, set("ntasks", w.Value))
		case 'o':
			out = append(out, set("output", w.Value))
		case 'q':
			out = append(out, set("partition", w.Value))
		case 'W':
			if strings.Count(w.Value, ":") == 1 {
				w.Value += ":00" // hours and minutes
			}
			out = append(out, set("time", w.Value))
		case 'x':
			out = append(out, set("exclusive", ""))
		}
	}
	if rest := sc.Rest(); len(rest) > 0 {
		return nil, strayWord(rest[0])
	}
	return out, nil
}
