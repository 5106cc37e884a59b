package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// form is the media type of an HTML form.
const form = "application/x-www-form-urlencoded"

// media are the types that bodies may have, read and written, as Slurm's
// plugins name them. Any other word is unknown, application/* too.
var media = map[string]struct{ yaml, form bool }{
	"*/*":                     {},
	"application/json":        {},
	"application/jsonrequest": {},
	"application/yaml":        {yaml: true},
	"application/x-yaml":      {yaml: true},
	"text/yaml":               {yaml: true},
	form:                      {form: true},
}

// accepted picks the type of the answer. Of the known types Slurm 26.05 takes
// the one with the lowest weight, and of equal ones the first.
func accepted(h http.Header) (mime string, yaml bool, e errno.Errno) {
	list := h.Values("Accept")
	if len(list) == 0 {
		return "application/json", false, errno.Success
	}
	best := 2.0
	for one := range strings.SplitSeq(strings.Join(list, ","), ",") {
		name, parameters, _ := strings.Cut(one, ";")
		name = strings.ToLower(strings.TrimSpace(name))
		if _, ok := media[name]; !ok {
			continue
		}
		if w := weight(parameters); w < best {
			best, mime = w, name
		}
	}
	switch m, ok := media[mime]; {
	case !ok:
		return "", false, errno.HTTPUnknownAcceptMimeType
	case m.form:
		return "", false, errno.NotSupported
	case mime == "*/*":
		return "application/json", false, errno.Success
	default:
		return mime, m.yaml, errno.Success
	}
}

// weight reads q of an Accept header's entry; 1 where there is none.
func weight(parameters string) float64 {
	for p := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(name, "q") {
			if q, err := strconv.ParseFloat(value, 64); err == nil && q >= 0 && q <= 1 {
				return q
			}
		}
	}
	return 1
}

// asJSON turns a body of the given type into JSON. Slurm answers a body without
// a type with an unspecified error, and knows no parameters of a type.
func asJSON(body []byte, contentType string) ([]byte, error) {
	if contentType == "" {
		return nil, errno.Unspecified
	}
	m, ok := media[strings.ToLower(contentType)]
	switch {
	case !ok:
		return nil, errno.DataUnknownMimeType
	case m.yaml:
		return fromYAML(body)
	case m.form:
		return fromForm(body)
	}
	return body, nil
}

// maxYAML bounds a body of YAML, in bytes: its tree takes a hundred times that.
const maxYAML = 5 << 20

// yamlTurn lets one body of YAML be read at a time, for the same reason.
var yamlTurn = make(chan struct{}, 1)

// fromYAML turns the first document of a body into JSON. Like Slurm it refuses
// anchors and aliases.
func fromYAML(body []byte) ([]byte, error) {
	if len(body) > maxYAML {
		return nil, errno.DataTooLarge
	}
	yamlTurn <- struct{}{}
	defer func() { <-yamlTurn }()
	var n yaml.Node
	if err := yaml.Unmarshal(body, &n); err != nil {
		return nil, fmt.Errorf("%w: %w", errno.DataConvFailed, err)
	}
	if n.Kind == 0 {
		return nil, nil // nothing but comments
	}
	return appendNode(make([]byte, 0, len(body)+len(body)/8), n.Content[0], 0)
}

// maxYAMLDepth bounds nesting before package wire looks at it.
const maxYAMLDepth = 64

var errYAML = errors.New("can't be JSON")

func appendNode(b []byte, n *yaml.Node, depth int) ([]byte, error) {
	bad := func() ([]byte, error) {
		return nil, fmt.Errorf("%w: line %d %w", errno.DataConvFailed, n.Line, errYAML)
	}
	if depth > maxYAMLDepth || n.Anchor != "" {
		return bad()
	}
	var err error
	switch n.Kind {
	case yaml.MappingNode:
		b = append(b, '{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Kind != yaml.ScalarNode || n.Content[i].ShortTag() == "!!merge" {
				return bad()
			}
			if i > 0 {
				b = append(b, ',')
			}
			b = append(wire.AppendString(b, n.Content[i].Value), ':')
			if b, err = appendNode(b, n.Content[i+1], depth+1); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	case yaml.SequenceNode:
		b = append(b, '[')
		for i, e := range n.Content {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendNode(b, e, depth+1); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case yaml.ScalarNode:
		return appendScalar(b, n), nil
	}
	return bad()
}

func appendScalar(b []byte, n *yaml.Node) []byte {
	switch n.ShortTag() {
	case "!!null":
		return append(b, "null"...)
	case "!!bool":
		return strconv.AppendBool(b, strings.EqualFold(n.Value, "true"))
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return strconv.AppendInt(b, i, 10)
		}
	}
	return wire.AppendString(b, n.Value) // numbers are read from texts too
}

// fromForm turns a form into an object of texts.
func fromForm(body []byte) ([]byte, error) {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, errno.Unspecified
	}
	b := []byte{'{'}
	for name, list := range values {
		if name == "" || len(list) == 0 || list[0] == "" {
			return nil, errno.Unspecified
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = wire.AppendString(append(wire.AppendString(b, name), ':'), list[0])
	}
	return append(b, '}'), nil
}
