// Command gen writes the types of package wire, their encoders and decoders
// from the newest structure document in spec/. Run it from slurmrest/wire:
// go run ./gen.
//
// oapi-codegen was tried first. It gives pointers to everything and decodes by
// reflection; Slurm's inputs (a bare number or "infinite" where the document
// says object, a list or a comma list, warnings for unknown fields) would need
// custom code for nearly every field, and GET /jobs of a large queue would
// spend its time in encoding/json. So the own generator knows a dozen kinds of
// field and writes one line for each.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"os"
	"slices"
	"strings"
)

const newest = "v0.0.45"

// responses and requests are the schemas asked for; what they refer to follows.
// Types of requests tell what was given from what was not.
var (
	responses = []string{
		"openapi_resp", "openapi_ping_array_resp", "openapi_diag_resp", "openapi_job_info_resp",
		"openapi_job_submit_response", "openapi_job_post_response", "openapi_kill_job_resp",
		"openapi_kill_jobs_resp", "openapi_nodes_resp", "openapi_partition_resp",
		"openapi_slurmdbd_jobs_resp", "openapi_slurmdbd_ping_resp", "openapi_job_requeue_resp",
		"openapi_jobs_requeue_resp", "openapi_licenses_resp", "openapi_resource_layout_resp",
		"openapi_slurmdbd_config_resp", "openapi_accounts_resp", "openapi_users_resp", "openapi_assocs_resp",
		"openapi_slurmdbd_qos_resp", "openapi_clusters_resp", "openapi_wckey_resp", "openapi_tres_resp", "openapi_instances_resp",
		"openapi_accounts_add_cond_resp", "openapi_users_add_cond_resp", "openapi_slurmdbd_stats_resp", "openapi_shares_resp",
		"openapi_accounts_removed_resp", "openapi_assocs_removed_resp", "openapi_clusters_removed_resp",
		"openapi_slurmdbd_qos_removed_resp", "openapi_wckey_removed_resp", "openapi_job_modify_req", "openapi_job_modify_resp",
	}
	requests = []string{"job_submit_req", "job_desc_msg", "kill_jobs_msg", "update_node_msg", "openapi_jobs_requeue_query"}
)

// names are Go names where the mechanical one would mislead.
var names = map[string]string{
	"job": "DBJob", "step": "DBStep", "openapi_meta": "Meta", "openapi_error": "Error", "openapi_warning": "Warning",
	"openapi_resp": "Response", "openapi_slurmdbd_jobs_resp": "DBJobsResp", "openapi_slurmdbd_ping_resp": "DBPingResp",
	"slurmdbd_ping": "DBPing",
}

// nullable are the fields that Slurm writes as null when there is nothing.
var nullable = map[string]bool{"JobInfo.job_resources": true, "JobPostResponse.results": true}

// ours are the fields of sbatchd's own in Slurm's records, left out when empty.
// They stay raw here: who knows them reads them.
var ours = map[string][]string{"job_submit_req": {"sbatchd"}}

var acronyms = map[string]string{
	"id": "ID", "cpu": "CPU", "cpus": "CPUs", "CPU": "CPU", "CPUs": "CPUs", "tres": "TRES", "gres": "GRES", "qos": "QOS",
	"mcs": "MCS", "tls": "TLS", "oom": "OOM", "sluid": "SLUID", "rpc": "RPC", "rpcs": "RPCs", "gpu": "GPU", "uid": "UID",
	"bf": "BF", "ids": "IDs", "lln": "LLN", "ts": "TS",
}

type schema struct {
	Ref        string             `json:"$ref"`
	Type       string             `json:"type"`
	Format     string             `json:"format"`
	Enum       []string           `json:"enum"`
	Items      *schema            `json:"items"`
	Properties map[string]*schema `json:"properties"`
}

type generator struct {
	schemas map[string]*schema
	done    map[string]bool
	request map[string]bool
	types   bytes.Buffer
	enc     bytes.Buffer
	dec     bytes.Buffer
	enums   bytes.Buffer
	enumOf  map[string]string // joined values -> variable
}

func camel(s string) string {
	var b strings.Builder
	for w := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '_' || r == '-' || r == ' ' || r == '.' }) {
		if a, ok := acronyms[w]; ok {
			b.WriteString(a)
			continue
		}
		b.WriteString(strings.ToUpper(w[:1]) + w[1:])
	}
	return b.String()
}

func goName(name string) string {
	if n, ok := names[name]; ok {
		return n
	}
	return camel(strings.TrimPrefix(name, "openapi_"))
}

// kind says how one field is held, written and read.
type kind struct {
	goType string
	method string // of enc and dec; "" for a struct
	enum   string // variable with the allowed values
}

func (g *generator) kind(owner, field string, s *schema, request bool) kind {
	if s.Ref != "" {
		name := strings.TrimPrefix(s.Ref, "#/components/schemas/"+newest+"_")
		switch {
		case name == "float64_no_val_struct":
			return kind{goType: "NumFloat", method: "numFloat"}
		case strings.HasSuffix(name, "_no_val_struct"):
			return kind{goType: "Num", method: "num"}
		case name == "csv_string" || name == "hostlist_string" || name == "hostlist":
			return kind{goType: "[]string", method: "csv"}
		}
		target := g.schemas[name]
		if target.Type == "array" {
			return g.kind(goName(name), "", target, request)
		}
		g.object(goName(name), strings.ToUpper(strings.TrimPrefix(name, "openapi_")), target, g.request[name])
		if request {
			return kind{goType: "*" + goName(name)}
		}
		return kind{goType: goName(name)}
	}
	switch s.Type {
	case "raw":
		return kind{goType: "json.RawMessage", method: "raw"}
	case "string":
		return kind{goType: "string", method: "str"}
	case "boolean":
		if request {
			return kind{goType: "*bool", method: "boolPtr"}
		}
		return kind{goType: "bool", method: "bool"}
	case "integer":
		if request {
			return kind{goType: "*int64", method: "intPtr"}
		}
		return kind{goType: "int64", method: "int"}
	case "number":
		return kind{goType: "float64", method: "float"}
	case "array":
		if s.Items.Enum != nil {
			return kind{goType: "[]string", method: "flags", enum: g.enum(owner, field, s.Items.Enum)}
		}
		k := g.kind(owner, field, s.Items, false)
		if k.goType == "string" {
			return kind{goType: "[]string", method: "strs"}
		}
		k.goType = "[]" + k.goType
		return k
	case "object":
		g.object(owner+camel(field), strings.ToUpper(owner+"_"+field), s, false)
		if request {
			return kind{goType: "*" + owner + camel(field)}
		}
		return kind{goType: owner + camel(field)}
	}
	panic(fmt.Sprintf("%s.%s: type %q", owner, field, s.Type))
}

func (g *generator) enum(owner, field string, values []string) string {
	joined := strings.Join(values, ",")
	if v, ok := g.enumOf[joined]; ok {
		return v
	}
	v := "enum" + owner + camel(field)
	g.enumOf[joined] = v
	fmt.Fprintf(&g.enums, "var %s = []string{", v)
	for _, s := range values {
		fmt.Fprintf(&g.enums, "%q, ", s)
	}
	fmt.Fprintf(&g.enums, "}\n\n")
	return v
}

// object writes type, encoder and decoder of one JSON object.
func (g *generator) object(name, slurm string, s *schema, request bool) {
	if g.done[name] {
		return
	}
	g.done[name] = true
	keys := make([]string, 0, len(s.Properties))
	for k := range s.Properties {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var typ, enc, dec bytes.Buffer
	fmt.Fprintf(&typ, "// %s is Slurm's %s.\ntype %s struct {\n", name, strings.ToLower(slurm), name)
	fmt.Fprintf(&enc, "func (v *%s) encode(e *encoder) {\n\te.open()\n", name)
	fmt.Fprintf(&dec, "func (v *%s) decode(d *decoder) {\n\tif !d.open() {\n\t\treturn\n\t}\n\tfor d.member() {\n\t\tswitch string(d.key) {\n", name)
	for _, key := range keys {
		k := g.kind(name, key, s.Properties[key], request)
		field := camel(key)
		null := nullable[name+"."+key]
		if null && !strings.HasPrefix(k.goType, "[]") {
			k.goType = "*" + k.goType
		}
		fmt.Fprintf(&typ, "\t%s %s `json:\"%s\"`\n", field, k.goType, key)
		if null {
			fmt.Fprintf(&enc, "\tif v.%s == nil {\n\t\te.null(%q)\n\t} else ", field, `"`+key+`":`)
		}
		g.encodeField(&enc, k, field, key, request, null)
		g.decodeField(&dec, k, field, key, request || null && k.method == "", request)
	}
	if request {
		typ.WriteString("\n\tgiven given\n")
	}
	typ.WriteString("}\n\n")
	enc.WriteString("\te.close()\n}\n\n")
	fmt.Fprintf(&dec, "\t\tdefault:\n\t\t\td.unknown(%q)\n\t\t}\n\t}\n}\n\n", slurm)
	g.types.Write(typ.Bytes())
	g.enc.Write(enc.Bytes())
	g.dec.Write(dec.Bytes())
	fmt.Fprintf(&g.types, "// MarshalJSON writes every field.\nfunc (v *%s) MarshalJSON() ([]byte, error) { return marshal(v), nil }\n\n", name)
	fmt.Fprintf(&g.types, "// UnmarshalJSON reads what Slurm would read.\nfunc (v *%s) UnmarshalJSON(b []byte) error { return unmarshal(b, v) }\n\n", name)
	if request {
		fmt.Fprintf(&g.types, "// Given reports whether the sender gave the field with this JSON name.\n"+
			"func (v *%s) Given(field string) bool { return v.given.has(field) }\n\n", name)
		fmt.Fprintf(&g.types, "// GivenFields lists the JSON names of what the sender gave.\n"+
			"func (v *%s) GivenFields() []string { return v.given }\n\n", name)
		fmt.Fprintf(&g.types, "// Give marks a field as given, so that its zero value is sent too.\n"+
			"func (v *%s) Give(field string) { v.given.add(field) }\n\n", name)
	}
}

func (g *generator) encodeField(w *bytes.Buffer, k kind, field, key string, request, null bool) {
	quoted := fmt.Sprintf("%q", `"`+key+`":`)
	optional := ""
	if request {
		optional = fmt.Sprintf("if v.%s != nil || v.given.has(%q) {\n", field, key)
		switch k.goType {
		case "string":
			optional = fmt.Sprintf("if v.%s != \"\" || v.given.has(%q) {\n", field, key)
		case "Num":
			optional = fmt.Sprintf("if v.%s != (Num{}) || v.given.has(%q) {\n", field, key)
		case "NumFloat":
			optional = fmt.Sprintf("if v.%s != (NumFloat{}) || v.given.has(%q) {\n", field, key)
		}
	}
	w.WriteString(optional)
	switch {
	case k.method == "csv" || k.method == "flags" || k.method == "strs":
		fmt.Fprintf(w, "\te.strs(%s, v.%s)\n", quoted, field)
	case k.method != "":
		fmt.Fprintf(w, "\te.%s(%s, v.%s)\n", k.method, quoted, field)
	case strings.HasPrefix(k.goType, "[][]"):
		fmt.Fprintf(w, "\tif e.list(%s, len(v.%s)) {\n\t\tfor i := range v.%s {\n\t\t\te.elem()\n\t\t\te.openList()\n"+
			"\t\t\tfor j := range v.%s[i] {\n\t\t\t\te.elem()\n\t\t\t\tv.%s[i][j].encode(e)\n\t\t\t}\n\t\t\te.closeList()\n\t\t}\n\t\te.closeList()\n\t}\n",
			quoted, field, field, field, field)
	case strings.HasPrefix(k.goType, "[]"):
		fmt.Fprintf(w, "\tif e.list(%s, len(v.%s)) {\n\t\tfor i := range v.%s {\n\t\t\te.elem()\n\t\t\tv.%s[i].encode(e)\n\t\t}\n\t\te.closeList()\n\t}\n",
			quoted, field, field, field)
	case null:
		fmt.Fprintf(w, "{\n\t\te.key(%s)\n\t\tv.%s.encode(e)\n\t}\n", quoted, field)
	default:
		fmt.Fprintf(w, "\tstart, body := e.mark(%s)\n\tv.%s.encode(e)\n\te.unmark(start, body)\n", quoted, field)
		if optional == "" {
			// A block of its own, so that the names can be declared again.
			s := w.String()
			at := strings.LastIndex(s, "\tstart, body := e.mark(")
			w.Truncate(at)
			fmt.Fprintf(w, "\t{\n%s\t}\n", s[at:])
		}
	}
	if optional != "" {
		w.WriteString("}\n")
	}
}

func (g *generator) decodeField(w *bytes.Buffer, k kind, field, key string, null, request bool) {
	fmt.Fprintf(w, "\t\tcase %q:\n", key)
	if null {
		fmt.Fprintf(w, "\t\t\tif d.null() {\n\t\t\t\tcontinue\n\t\t\t}\n")
	}
	if request {
		fmt.Fprintf(w, "\t\t\tv.given.add(%q)\n", key)
	}
	switch {
	case k.enum != "":
		fmt.Fprintf(w, "\t\t\td.flags(&v.%s, %s)\n", field, k.enum)
	case k.method != "":
		fmt.Fprintf(w, "\t\t\td.%s(&v.%s)\n", k.method, field)
	case strings.HasPrefix(k.goType, "[][]"):
		inner := strings.TrimPrefix(k.goType, "[]")
		fmt.Fprintf(w, "\t\t\tv.%s = nil\n\t\t\tif d.list() {\n\t\t\t\tfor d.element() {\n\t\t\t\t\tvar row %s\n\t\t\t\t\tif d.list() {\n\t\t\t\t\t\tfor d.element() {\n"+
			"\t\t\t\t\t\t\trow = append(row, %s{})\n\t\t\t\t\t\t\trow[len(row)-1].decode(d)\n\t\t\t\t\t\t}\n\t\t\t\t\t}\n\t\t\t\t\tv.%s = append(v.%s, row)\n\t\t\t\t}\n\t\t\t}\n",
			field, inner, strings.TrimPrefix(inner, "[]"), field, field)
	case strings.HasPrefix(k.goType, "[]"):
		fmt.Fprintf(w, "\t\t\tv.%s = nil\n\t\t\tif start := d.pos; d.list() {\n\t\t\t\tfor d.element() {\n"+
			"\t\t\t\t\tv.%s = append(room(d, v.%s, start), %s{})\n\t\t\t\t\tv.%s[len(v.%s)-1].decode(d)\n\t\t\t\t}\n\t\t\t}\n",
			field, field, field, strings.TrimPrefix(k.goType, "[]"), field, field)
	default:
		if p, ok := strings.CutPrefix(k.goType, "*"); ok {
			fmt.Fprintf(w, "\t\t\tv.%s = new(%s)\n", field, p)
		}
		fmt.Fprintf(w, "\t\t\tv.%s.decode(d)\n", field)
	}
}

func run() error {
	data, err := os.ReadFile("spec/structure-" + newest + ".json")
	if err != nil {
		return err
	}
	var doc struct {
		Components struct{ Schemas map[string]*schema }
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return err
	}
	g := &generator{schemas: map[string]*schema{}, done: map[string]bool{}, request: map[string]bool{}, enumOf: map[string]string{}}
	for name, s := range doc.Components.Schemas {
		g.schemas[strings.TrimPrefix(name, newest+"_")] = s
	}
	for _, name := range requests {
		g.request[name] = true
	}
	for name, fields := range ours {
		for _, f := range fields {
			g.schemas[name].Properties[f] = &schema{Type: "raw"}
		}
	}
	for _, name := range slices.Concat(responses, requests) {
		s, ok := g.schemas[name]
		if !ok {
			return fmt.Errorf("no schema %s", name)
		}
		g.object(goName(name), strings.ToUpper(strings.TrimPrefix(name, "openapi_")), s, g.request[name])
	}
	const head = "// Code generated by go run ./gen from spec/structure-" + newest + ".json; DO NOT EDIT.\n\npackage wire\n\n"
	g.types = *bytes.NewBuffer(append([]byte("import \"encoding/json\"\n\n"), g.types.Bytes()...))
	for file, body := range map[string][]byte{
		"zz_types.go":  append(g.types.Bytes(), g.enums.Bytes()...),
		"zz_encode.go": g.enc.Bytes(),
		"zz_decode.go": g.dec.Bytes(),
	} {
		src, err := format.Source(append([]byte(head), body...))
		if err != nil {
			_ = os.WriteFile(file+".bad", body, 0o644) //nolint:errcheck // only to look at what is wrong
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(file, src, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "wire/gen:", err)
		os.Exit(1)
	}
}
