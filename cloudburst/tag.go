package cloudburst

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Tag is the name every instance of ours carries at its provider:
// "<cluster-uuid>-<node>-<incarnation>". The incarnation counts the instances a
// node has had, so an old machine is never taken for the node of today.
type Tag string

const uuidLen = 36

var (
	uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	errTag   = errors.New("not a tag of ours")
)

// MakeTag builds the tag of one instance. The UUID is 36 characters, lower case.
func MakeTag(clusterUUID, node string, incarnation uint64) Tag {
	return Tag(fmt.Sprintf("%s-%s-%d", clusterUUID, node, incarnation))
}

// Parse splits a tag into the cluster's UUID, the node's name and the
// incarnation. Text that we did not make is an error: such a machine is not
// ours to touch.
func (t Tag) Parse() (clusterUUID, node string, incarnation uint64, err error) {
	s := string(t)
	if len(s) < uuidLen+4 || s[uuidLen] != '-' || !uuidForm.MatchString(s[:uuidLen]) {
		return "", "", 0, fmt.Errorf("%q: %w", s, errTag)
	}
	rest := s[uuidLen+1:]
	i := strings.LastIndexByte(rest, '-')
	if i <= 0 {
		return "", "", 0, fmt.Errorf("%q: %w", s, errTag)
	}
	incarnation, err = strconv.ParseUint(rest[i+1:], 10, 64)
	if err != nil {
		return "", "", 0, fmt.Errorf("%q: %w", s, errTag)
	}
	return s[:uuidLen], rest[:i], incarnation, nil
}

// Of reports whether the tag was made by the cluster with this UUID.
func (t Tag) Of(clusterUUID string) bool {
	uuid, _, _, err := t.Parse()
	return err == nil && uuid == clusterUUID
}
