package rig

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os/exec"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/runtime/image/build"
)

// usrBin are the applets that scripts name by their full path below /usr/bin.
var usrBin = []string{"env", "awk", "printf", "seq", "sort", "time", "test"}

// Image makes a small image to run jobs in, pushes it to a registry of Registry
// and returns the reference pinned by digest. It holds busybox, statically
// linked, and bash.
func (r *Rig) Image(ctx context.Context, registry, repository string) (string, error) {
	busybox, err := find("busybox")
	if err != nil {
		return "", err
	}
	bash, err := find("bash-static")
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return "", fmt.Errorf("busybox --list: %w", err)
	}
	files := []build.File{
		{Path: "bin/busybox", Source: busybox, Mode: 0o755},
		{Path: "bin/bash", Source: bash, Mode: 0o755},
		{Path: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		{Path: "root", Mode: fs.ModeDir | 0o700},
		{Path: "etc/passwd", Data: []byte("root:x:0:0:root:/root:/bin/sh\n"), Mode: 0o644},
		{Path: "etc/group", Data: []byte("root:x:0:\n"), Mode: 0o644},
	}
	for applet := range strings.FieldsSeq(string(out)) {
		if applet != "busybox" {
			files = append(files, build.File{Path: "bin/" + applet, Link: "busybox"})
		}
		if slices.Contains(usrBin, applet) {
			files = append(files, build.File{Path: "usr/bin/" + applet, Link: "../../bin/busybox"})
		}
	}
	image, err := build.Build(files, build.Config{Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, Cmd: []string{"/bin/sh"}})
	if err != nil {
		return "", fmt.Errorf("make an image: %w", err)
	}
	return image.Push(ctx, http.DefaultClient, "http://"+registry, repository, "")
}
