package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Served says whether the server answers an operation; path is a template as
// it stands in the structure.
type Served func(method, path string) bool

// OpenAPI builds one OpenAPI 3 document of all versions with the operations that
// are served, and of the schemas only those they need.
func OpenAPI(title, release string, served Served) ([]byte, error) {
	docs, err := load()
	if err != nil {
		return nil, err
	}
	paths := map[string]map[string]json.RawMessage{}
	schemas := map[string]json.RawMessage{}
	for _, d := range docs {
		for path, methods := range d.Paths {
			for method, op := range methods {
				if !served(strings.ToUpper(method), path) {
					continue
				}
				if paths[path] == nil {
					paths[path] = map[string]json.RawMessage{}
				}
				paths[path][method] = op
				if err := d.collect(op, schemas); err != nil {
					return nil, fmt.Errorf("%s: %w", path, err)
				}
			}
		}
	}
	for name, raw := range schemas {
		if schemas[name], err = booleans(raw); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return json.Marshal(map[string]any{
		"openapi": "3.0.3",
		"info": map[string]any{
			"title": title, "version": release, "description": "Slurm's REST API as sbatchd serves it",
			"license": map[string]string{"name": "Apache 2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0.html"},
		},
		"servers": []map[string]string{{"url": "/"}},
		"tags": []map[string]string{
			{"name": "slurm", "description": "jobs, nodes and partitions of the controller"},
			{"name": "slurmdb", "description": "accounting"},
		},
		"security": []map[string][]string{{"user": {}, "token": {}}, {"token": {}}, {"bearerAuth": {}}, {}},
		"paths":    paths,
		"components": map[string]any{
			"schemas": schemas,
			"securitySchemes": map[string]any{
				"user":       map[string]string{"type": "apiKey", "name": "X-SLURM-USER-NAME", "in": "header", "description": "user name"},
				"token":      map[string]string{"type": "apiKey", "name": "X-SLURM-USER-TOKEN", "in": "header", "description": "access token"},
				"bearerAuth": map[string]string{"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "access token"},
			},
		},
	})
}

// booleans makes the defaults of booleans booleans: v0.0.40 has numbers there,
// which no validator takes.
func booleans(raw json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(raw, []byte(`"default"`)) {
		return raw, nil
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if n, ok := v["default"].(float64); ok && v["type"] == "boolean" {
				v["default"] = n != 0
			}
			for _, e := range v {
				walk(e)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	return json.Marshal(v)
}

const refPrefix = `#/components/schemas/`

// collect adds the schemas that raw refers to, and theirs.
func (d *document) collect(raw json.RawMessage, into map[string]json.RawMessage) error {
	rest := string(raw)
	for {
		_, after, ok := strings.Cut(rest, `"`+refPrefix)
		if !ok {
			return nil
		}
		name, tail, _ := strings.Cut(after, `"`)
		rest = tail
		if _, had := into[name]; had {
			continue
		}
		s, ok := d.Components.Schemas[name]
		if !ok {
			return fmt.Errorf("no schema %s", name)
		}
		into[name] = s
		if err := d.collect(s, into); err != nil {
			return err
		}
	}
}
