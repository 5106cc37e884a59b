package stage

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
)

// The link carries text; a file name may be any bytes. What isn't UTF-8, or
// looks like the mark, travels behind it.
const mark = "\x01base64:"

func wireText(s string) string {
	if utf8.ValidString(s) && !strings.HasPrefix(s, mark) {
		return s
	}
	return mark + base64.RawStdEncoding.EncodeToString([]byte(s))
}

func realText(s string) (string, error) {
	enc, ok := strings.CutPrefix(s, mark)
	if !ok {
		return s, nil
	}
	raw, err := base64.RawStdEncoding.DecodeString(enc)
	if err != nil {
		return "", fmt.Errorf("bad path %q: %w", s, err)
	}
	return string(raw), nil
}

// fromWire reads and checks a path.
func fromWire(s string) (string, error) {
	name, err := realText(s)
	if err != nil {
		return "", err
	}
	return name, checkName(name)
}

// toWire is an entry as the link carries it.
func toWire(info *agentapi.FileInfo) *agentapi.FileInfo {
	name, link := wireText(info.GetPath()), wireText(info.GetLink())
	if name == info.GetPath() && link == info.GetLink() {
		return info
	}
	c, _ := proto.Clone(info).(*agentapi.FileInfo) // its own type
	c.Path, c.Link = name, link
	return c
}

// entryFromWire reads and checks an entry.
func entryFromWire(info *agentapi.FileInfo) (*agentapi.FileInfo, error) {
	name, err := fromWire(info.GetPath())
	if err != nil {
		return nil, err
	}
	link, err := realText(info.GetLink())
	if err != nil {
		return nil, err
	}
	if name == info.GetPath() && link == info.GetLink() {
		return info, nil
	}
	c, _ := proto.Clone(info).(*agentapi.FileInfo) // its own type
	c.Path, c.Link = name, link
	return c, nil
}
