package wire_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// requests are bodies that were sent to a Slurm, and what is wrong with some.
var requests = []string{
	``, `{}`, `[]`, `null`, `"x"`, `{"script":"#!/bin/sh\ntrue\n","job":{"name":"a","environment":["PATH=/bin"],"tasks":2}}`,
	`{"script":"#!/bin/sh","jobs":[{"name":"a"},{"time_limit":{"set":true,"infinite":false,"number":5}}]}`,
	`{"job":{"time_limit":"infinite","memory_per_node":-5,"nice":1e40,"tasks":1.5,"priority":99999999999999999999}}`,
	`{"job":{"environment":{"A":"b"},"mail_type":["END","nope"],"shared":true,"exclusive":["true"]}}`,
	"{\"job\":{\"name\":\"\xff\xfe\x00\",\"comment\":\"\\ud800\\u0000\\/\"}}", `{"a":1,"a":2,}`, `/* c */{"job":{// x` + "\n}}",
	`{"job":{"required_nodes":"n[1-3],m4","hold":"yes","deadline":null,"crontab":{"minute":[1]}}}`,
	`{"sbatchd":{"a":[1,2,{"b":null}]},"job":{"x":[[[[[[]]]]]]}}`, `{"job":`,
}

// FuzzRead: any bytes are read or refused, without a panic; what was read and is
// written again reads as the same.
func FuzzRead(f *testing.F) {
	for _, r := range requests {
		f.Add([]byte(r))
	}
	former := map[string]string{"exclusive": "shared", "oversubscribe": "shared", "power_flags": ""}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, target := range []interface {
			wire.Target
			wire.Value
		}{&wire.JobSubmitReq{}, &wire.JobDescMsg{}, &wire.KillJobsMsg{}, &wire.UpdateNodeMsg{}} {
			res, err := wire.ReadFormer(body, target, former)
			if err != nil || len(res.Errors) > 0 || res.Refused {
				continue
			}
			once := wire.Append(nil, target)
			if !json.Valid(once) {
				t.Fatalf("%T of %q is written as %q", target, body, once)
			}
			if d, ok := target.(*wire.JobDescMsg); ok {
				var again wire.JobDescMsg
				if _, err := wire.Read(once, &again); err != nil {
					t.Fatalf("%q: %v", once, err)
				}
				if twice := wire.Append(nil, &again); utf8.Valid(body) && !bytes.Equal(once, twice) {
					t.Fatalf("%q is read as %q and that as %q (%v)", body, once, twice, d.GivenFields())
				}
			}
		}
	})
}

// FuzzYAML: JSON of ours becomes YAML without a panic and without losing a line.
func FuzzYAML(f *testing.F) {
	for _, s := range []string{"", "a: b", "- x", "yes", "1e5", "a\nb", "\x00\xff", "é", "#", "'", "0x1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		doc := wire.Append(nil, &wire.JobInfoResp{Jobs: []wire.JobInfo{{Name: text, Comment: text, Flags: []string{text}}}})
		out := wire.AppendYAML(nil, doc)
		if !bytes.HasSuffix(out, []byte(wire.YAMLEnd)) || bytes.Count(out, []byte("!!str name:")) < 1 || bytes.ContainsRune(out, 0) {
			t.Errorf("%q: %q", text, out)
		}
	})
}
