# lib.sh: shared by the setup scripts. Sourced, with $root set to the top of the tree.
#
# Tools that are not Debian packages go into .cache/tools, which `make clean` removes.

tools=$root/.cache/tools

say() { echo "setup: $*"; }
die() { echo "setup: $*" >&2; exit 1; }

# packages_missing NAME...: prints those that dpkg does not have installed.
packages_missing() {
	for name; do
		dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q '^install ok installed' || printf '%s ' "$name"
	done
}

# packages_install NAME...: installs what is missing with apt-get, and starts none of the services that come
# with it: the demo and the tests start their own, on ports of their own.
packages_install() {
	command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || { say "not a Debian system: please provide $*"; return 0; }
	missing=$(packages_missing "$@")
	[ -n "$missing" ] || return 0
	if [ "$(id -u)" != 0 ]; then
		say "not root, so not installed: $missing"
		return 0
	fi
	say "installing the Debian packages $missing"
	policy=/usr/sbin/policy-rc.d
	ours=
	if [ ! -e $policy ]; then
		printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy
		ours=$policy
	fi
	# shellcheck disable=SC2086 # a list of names
	{ DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 ||
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null; }; } ||
		failed=yes
	[ -z "$ours" ] || rm -f "$ours"
	[ -z "${failed:-}" ] || die "apt-get could not install $missing"
}

# go_tool NAME MODULE-PATH VERSION: builds a Go program into .cache/tools unless that version is there.
go_tool() {
	stamp=$tools/.$1-$3
	[ -x "$tools/$1" ] && [ -e "$stamp" ] && return 0
	say "building $1 $3 from $2 into .cache/tools (minutes, once)"
	mkdir -p "$tools"
	# From outside the module, so that its go.mod has no say in the tool's dependencies.
	(cd "$tools" && GOFLAGS=-trimpath GOBIN=$tools CGO_ENABLED=0 go install -ldflags '-s -w' "$2@$3" 2>"$tools/$1.log") ||
		{ tail -5 "$tools/$1.log" >&2; return 1; }
	rm -f "$tools/.$1-"* "$tools/$1.log"
	: >"$stamp"
}
