package image

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"

	"github.com/sbatchd/sbatchd/runtime/container"
)

// Name is the full name of a pinned image, registry/repository@digest, under
// which it is kept on a node. It takes the forms users write: docker://, Pyxis's
// REGISTRY#IMAGE, names of Docker Hub, a tag beside the digest (which the digest
// makes meaningless). A reference without digest is an ErrPin.
func Name(ref string) (string, digest.Digest, error) {
	text := strings.TrimPrefix(ref, "docker://")
	if registry, rest, ok := strings.Cut(text, "#"); ok {
		text = registry + "/" + rest
	}
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return "", "", container.Failf(container.ErrImage, "image %q: %w", ref, err)
	}
	pinned, ok := named.(reference.Digested)
	if !ok {
		return "", "", container.Failf(container.ErrPin, "image %s is not pinned: write it as %s@sha256:...", ref, reference.TrimNamed(named))
	}
	d := pinned.Digest()
	return reference.TrimNamed(named).Name() + "@" + d.String(), d, nil
}

// CheckPin compares the digest that was pinned with the one that is there. The
// error, an ErrPin, says both.
func CheckPin(name string, want, have digest.Digest) error {
	if want == have {
		return nil
	}
	return container.Failf(container.ErrPin, "image %s is pinned to %s but the node has %s", name, want, have)
}

// CheckDriver tells whether a GPU driver is at least min, both as dotted
// numbers ("550.54.14"); an empty min allows any. The error, an ErrPin, says
// both versions.
func CheckDriver(image, have, min string) error {
	if min == "" {
		return nil
	}
	if have == "" {
		return container.Failf(container.ErrPin, "image %s needs GPU driver %s or newer but the node has none", image, min)
	}
	order, err := CompareVersions(have, min)
	if err != nil {
		return container.Failf(container.ErrPin, "image %s needs GPU driver %s or newer: %w", image, min, err)
	}
	if order < 0 {
		return container.Failf(container.ErrPin, "image %s needs GPU driver %s or newer but the node has %s", image, min, have)
	}
	return nil
}

// CheckDriverPin compares the driver a pool promises with the one its node has;
// an empty want promises nothing. The error, an ErrPin, says both versions.
func CheckDriverPin(want, have string) error {
	if want == "" {
		return nil
	}
	if order, err := CompareVersions(have, want); err == nil && order == 0 {
		return nil
	}
	return container.Failf(container.ErrPin, "the pool is pinned to GPU driver %s but the node has %s", want, cmp.Or(have, "none"))
}

// CompareVersions orders dotted numbers: -1, 0 or +1. Missing parts are 0, so
// 550 and 550.0 are equal.
func CompareVersions(a, b string) (int, error) {
	left, err := parseVersion(a)
	if err != nil {
		return 0, err
	}
	right, err := parseVersion(b)
	if err != nil {
		return 0, err
	}
	for i := range max(len(left), len(right)) {
		var l, r int
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		if order := cmp.Compare(l, r); order != 0 {
			return order, nil
		}
	}
	return 0, nil
}

func parseVersion(s string) ([]int, error) {
	var parts []int
	for part := range strings.SplitSeq(s, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("version %q is not dotted numbers", s)
		}
		parts = append(parts, n)
	}
	return parts, nil
}
