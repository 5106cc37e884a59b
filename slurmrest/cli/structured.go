package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// printStructured prints an answer of the REST API for --json or --yaml.
func printStructured(e *Env, in *Input, v wire.Value) error {
	if in.Given("json") && in.Str("json") == "list" || in.Given("yaml") && in.Str("yaml") == "list" {
		e.printf("Possible data_parser plugins:\ndata_parser/%s\n", wire.Newest)
		return nil
	}
	for _, name := range []string{"json", "yaml"} {
		if w := in.Str(name); w != "" && !strings.HasPrefix(w, "v0.0.4") && w != "latest" && !strings.HasPrefix(w, "data_parser/") {
			return fatalf("Unable to find plugin: data_parser/%s", w)
		}
	}
	return printData(e, wire.Append(nil, v), in.Given("yaml"))
}

// printData prints JSON, indented unless SLURM_JSON says compact, or as YAML.
func printData(e *Env, data []byte, yaml bool) error {
	if yaml {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		var b bytes.Buffer
		b.WriteString("---\n")
		if err := yamlValue(d, &b, 0, false); err != nil {
			return fmt.Errorf("yaml: %w", err)
		}
		b.WriteString("...\n")
		_, err := e.Stdout.Write(b.Bytes())
		return err
	}
	var b bytes.Buffer
	var err error
	if strings.Contains(e.Getenv("SLURM_JSON"), "compact") {
		err = json.Compact(&b, data)
	} else {
		err = json.Indent(&b, data, "", "  ")
	}
	if err != nil {
		return fmt.Errorf("json: %w", err)
	}
	b.WriteByte('\n')
	_, err = e.Stdout.Write(b.Bytes())
	return err
}

// yamlValue turns the next JSON value into block YAML. inline says that a key or
// dash stands before it on the line.
func yamlValue(d *json.Decoder, b *bytes.Buffer, depth int, inline bool) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	pad := strings.Repeat("  ", depth)
	switch t {
	case json.Delim('{'), json.Delim('['):
	default:
		if inline {
			b.WriteByte(' ')
		}
		b.WriteString(yamlScalar(t))
		b.WriteByte('\n')
		return nil
	}
	object := t == json.Delim('{')
	if !d.More() {
		if inline {
			b.WriteByte(' ')
		}
		if object {
			b.WriteString("{}\n")
		} else {
			b.WriteString("[]\n")
		}
		_, err := d.Token()
		return err
	}
	if inline {
		b.WriteByte('\n')
	}
	for d.More() {
		b.WriteString(pad)
		if object {
			key, err := d.Token()
			if err != nil {
				return err
			}
			b.WriteString(yamlScalar(key) + ":")
		} else {
			b.WriteByte('-')
		}
		if err := yamlValue(d, b, depth+1, true); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

func yamlScalar(t json.Token) string {
	switch v := t.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return v.String()
	case string:
		if plainYAML(v) {
			return v
		}
		q, err := json.Marshal(v)
		if err != nil {
			return `""`
		}
		return string(q)
	}
	return fmt.Sprint(t)
}

// plainYAML says whether a text reads as the same string without quotes.
func plainYAML(s string) bool {
	if s == "" || strings.ContainsAny(s[:1], "0123456789-+.~ ?&*!|>'\"%@`#{}[],") {
		return false
	}
	for _, c := range s {
		if c < 0x20 || c > 0x7e || strings.ContainsRune(":#", c) {
			return false
		}
	}
	i := sort.SearchStrings(yamlWords, strings.ToLower(s))
	return (i == len(yamlWords) || yamlWords[i] != strings.ToLower(s)) && strings.TrimSpace(s) == s
}

// yamlWords mean something else than their letters in some reader of YAML.
var yamlWords = []string{"false", "inf", "n", "nan", "no", "null", "off", "on", "true", "y", "yes"}
