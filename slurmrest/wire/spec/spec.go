// Package spec holds the published structure of Slurm's REST API as data: paths,
// field names, types and enums of each served version.
//
// The files structure-v0.0.4N.json come from the OpenAPI documents slurmrestd
// generated (as published, Apache-2.0, in github.com/SlinkyProject/slurm-client,
// api/v00NN/slurm-openapi.gen.json), with every title, description, summary and
// example removed. The server builds /openapi/v3 from them; tests check every
// answer against them. Commands must not import this package: it is large.
package spec

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed structure-*.json
var files embed.FS

// Schema is the part of an OpenAPI schema that Slurm uses.
type Schema struct {
	Ref        string             `json:"$ref,omitempty"`
	Type       string             `json:"type,omitempty"`
	Format     string             `json:"format,omitempty"`
	Enum       []string           `json:"enum,omitempty"`
	Items      *Schema            `json:"items,omitempty"`
	Properties map[string]*Schema `json:"properties,omitempty"`
}

type document struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Schemas map[string]json.RawMessage
	}
	schemas map[string]*Schema
}

var load = sync.OnceValues(func() (map[string]*document, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	docs := map[string]*document{}
	for _, e := range entries {
		data, err := files.ReadFile(e.Name())
		if err != nil {
			return nil, err
		}
		d := &document{schemas: map[string]*Schema{}}
		if err := json.Unmarshal(data, d); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		for name, raw := range d.Components.Schemas {
			s := &Schema{}
			if err := json.Unmarshal(raw, s); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", e.Name(), name, err)
			}
			d.schemas[name] = s
		}
		version := strings.TrimSuffix(strings.TrimPrefix(e.Name(), "structure-"), ".json")
		docs[version] = d
	}
	return docs, nil
})

// Operation is one method of one path, a template as it stands in the structure.
type Operation struct{ Method, Path string }

// Operations lists what a version has.
func Operations(version string) []Operation {
	docs, err := load()
	if err != nil || docs[version] == nil {
		return nil
	}
	var list []Operation
	for path, methods := range docs[version].Paths {
		for method := range methods {
			list = append(list, Operation{strings.ToUpper(method), path})
		}
	}
	slices.SortFunc(list, func(a, b Operation) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	return list
}

// Check compares an answer with the structure of its version. path is the
// template of the document with or without the trailing slash, for instance
// /slurm/v0.0.45/job/{job_id}. Every field must be known, of its type and, in
// enums, of its words; and no field of an object may be missing, except that an
// answer with errors may lack its payload.
func Check(version, method, path string, body []byte) error {
	s, d, err := answer(version, method, path)
	if err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	c := checker{d: d}
	top, ok := v.(map[string]any)
	if !ok {
		return errors.New("answer is not an object")
	}
	s = c.resolve(s)
	failed, _ := top["errors"].([]any)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if _, ok := top[name]; !ok && (len(failed) == 0 || slices.Contains([]string{"meta", "errors", "warnings"}, name)) {
			c.fault(name, "is missing")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(top)) {
		c.member(s, name, name, top[name])
	}
	return errors.Join(c.faults...)
}

// answer finds the schema of an operation's 200 answer.
func answer(version, method, path string) (*Schema, *document, error) {
	docs, err := load()
	if err != nil {
		return nil, nil, err
	}
	d, ok := docs[version]
	if !ok {
		return nil, nil, fmt.Errorf("no structure for %s", version)
	}
	methods, ok := d.Paths[path]
	if !ok {
		methods, ok = d.Paths[strings.TrimSuffix(path, "/")+"/"]
	}
	if !ok {
		methods, ok = d.Paths[strings.TrimSuffix(path, "/")]
	}
	raw, has := methods[strings.ToLower(method)]
	if !ok || !has {
		return nil, nil, fmt.Errorf("no operation %s %s", method, path)
	}
	var op struct {
		Responses map[string]struct {
			Content map[string]struct{ Schema *Schema }
		}
	}
	if err := json.Unmarshal(raw, &op); err != nil {
		return nil, nil, err
	}
	s := op.Responses["200"].Content["application/json"].Schema
	if s == nil {
		return nil, nil, fmt.Errorf("%s %s has no answer", method, path)
	}
	return s, d, nil
}

type checker struct {
	d      *document
	faults []error
}

func (c *checker) fault(path, format string, args ...any) {
	const most = 50
	if len(c.faults) < most {
		c.faults = append(c.faults, fmt.Errorf("%s "+format, append([]any{path}, args...)...))
	}
}

func (c *checker) resolve(s *Schema) *Schema {
	for s.Ref != "" {
		s = c.d.schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	return s
}

func (c *checker) member(s *Schema, name, path string, v any) {
	p, ok := s.Properties[name]
	if !ok {
		c.fault(path, "is unknown")
		return
	}
	c.value(p, path, v)
}

// nullable are the fields where Slurm writes null for nothing, whatever its own
// document says.
var nullable = []string{"job_resources", "results"}

func (c *checker) value(s *Schema, path string, v any) {
	s = c.resolve(s)
	if v == nil && slices.Contains(nullable, path[strings.LastIndexByte(path, '.')+1:]) {
		return
	}
	switch s.Type {
	case "object":
		obj, ok := v.(map[string]any)
		if !ok {
			c.fault(path, "is %T, want an object", v)
			return
		}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if _, ok := obj[name]; !ok {
				c.fault(path+"."+name, "is missing")
			}
		}
		for _, name := range slices.Sorted(maps.Keys(obj)) {
			c.member(s, name, path+"."+name, obj[name])
		}
	case "array":
		list, ok := v.([]any)
		if !ok {
			c.fault(path, "is %T, want a list", v)
			return
		}
		for i, e := range list {
			c.value(s.Items, path+"["+strconv.Itoa(i)+"]", e)
		}
	case "string":
		text, ok := v.(string)
		if !ok {
			c.fault(path, "is %T, want a string", v)
		} else if s.Enum != nil && !slices.Contains(s.Enum, text) {
			c.fault(path, "is %q, which is none of its words", text)
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			c.fault(path, "is %T, want a boolean", v)
		}
	case "integer":
		if f, ok := v.(float64); !ok || f != math.Trunc(f) {
			c.fault(path, "is %v, want an integer", v)
		}
	case "number":
		if _, ok := v.(float64); !ok {
			c.fault(path, "is %T, want a number", v)
		}
	case "": // the document says nothing
	default:
		c.fault(path, "has type %q", s.Type)
	}
}
