package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// volatile are keys of JSON answers whose values say when and by which process a
// thing was done, or how busy the machine is; their values are not compared, that
// they are there is.
var volatile = map[string]bool{
	"client": true, "release": true, "version": true, "pid": true, "elapsed": true, "load": true, "cpu_load": true,
	"free_mem": true, "latency": true, "alloc_sid": true, "submit_line_pid": true, "last_backfill": true, "rpc_version": true,
	"last_update": true, "last_busy": true, "boot_time": true, "slurmd_start_time": true,
}

// canonical prints a JSON document with sorted keys, or only the picked values of
// it. It says no where the text is none, and nothing was to be picked.
func canonical(text string, pick []string) (string, bool) {
	trimmed := strings.TrimSpace(text)
	if !strings.HasPrefix(trimmed, "{") && len(pick) == 0 {
		return "", false
	}
	var v any
	d := json.NewDecoder(strings.NewReader(trimmed))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return "", false
	}
	v = calm(v)
	if len(pick) == 0 {
		return indented(v), true
	}
	var b strings.Builder
	for _, path := range pick {
		found := find(v, strings.Split(path, "."))
		if len(found) == 0 {
			fmt.Fprintf(&b, "%s: absent\n", path)
		}
		for _, f := range found {
			fmt.Fprintf(&b, "%s: %s", path, indented(f))
		}
	}
	return b.String(), true
}

func indented(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(v); err != nil {
		panic(err) // it was decoded from JSON
	}
	return b.String()
}

// calm replaces the values of volatile keys.
func calm(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if plugin, ok := value.(map[string]any); ok && key == "plugin" && plugin["name"] != nil {
				plugin["name"] = still(plugin["name"]) // the server's name for itself
			}
			if volatile[key] {
				value = still(value)
			}
			v[key] = calm(value)
		}
	case []any:
		for i := range v {
			v[i] = calm(v[i])
		}
	}
	return v
}

// still keeps what a value is and drops which.
func still(v any) any {
	switch v := v.(type) {
	case json.Number:
		return json.Number("0")
	case string:
		return "*"
	case map[string]any:
		for key := range v {
			v[key] = still(v[key])
		}
	}
	return v
}

// find follows a path like jobs[].name or jobs[0].name; [] is every element.
func find(v any, path []string) []any {
	if len(path) == 0 {
		return []any{v}
	}
	name, index, list := strings.Cut(strings.TrimSuffix(path[0], "]"), "[")
	if name != "" {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		if v, ok = m[name]; !ok {
			return nil
		}
	}
	if !list {
		return find(v, path[1:])
	}
	elements, ok := v.([]any)
	if !ok {
		return nil
	}
	if index != "" {
		n, err := strconv.Atoi(index)
		if err != nil || n < 0 || n >= len(elements) {
			return nil
		}
		elements = elements[n : n+1]
	}
	var found []any
	for _, e := range elements {
		found = append(found, find(e, path[1:])...)
	}
	return found
}
