#!/bin/sh
# install.sh WHAT...: installs what a make target needs, says so, and does nothing when it is there.
#
#   build   a C compiler for sbatchd-gpu (and for the race detector)
#   demo    a container engine, a registry, and what an image is made of
#   e2e     what the tests start besides: an SSH server, an S3 server, a MariaDB server
#   lint    golangci-lint
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/setup/lib.sh"

versitygw=v1.8.0
golangci=v2.15.0

command -v go >/dev/null || die "Go is missing: install Go 1.26 or newer first"

for what; do
	case $what in
	build) packages_install gcc libc6-dev ca-certificates ;;
	demo) packages_install containerd runc docker-registry iproute2 busybox-static bash-static slirp4netns ;;
	e2e)
		packages_install containerd runc docker-registry iproute2 busybox-static bash-static slirp4netns openssh-server openssh-client mariadb-server-core jq util-linux
		go_tool versitygw github.com/versity/versitygw/cmd/versitygw $versitygw ||
			say "versitygw could not be built: the tests that need a real S3 server will be skipped"
		;;
	lint) go_tool golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint $golangci || die "golangci-lint could not be built" ;;
	*) die "unknown: $what" ;;
	esac
done
