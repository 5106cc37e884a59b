#!/bin/sh
# real-slurm.sh: Debian's own Slurm, newest suite, to measure beside sbatchd. Used by tests/bench.
#
#   real-slurm.sh up            install into .cache/real-slurm (minutes, once; about 0.6 GB) and start, empty of jobs
#   real-slurm.sh run CMD ...   run CMD inside as alice
#   real-slurm.sh token         print a token for REST as alice; REST is on http://127.0.0.1:26820
#   real-slurm.sh pid NAME      print the process of slurmctld, slurmd or slurmrestd, as seen from outside
#   real-slurm.sh down          stop it
#
# One node, 64 CPUs, partition gpu; slurmctld, slurmd and slurmrestd in a chroot with mount, pid and UTS namespaces
# of their own: nothing is mounted outside them, so `make clean` may delete the folder. No accounting daemon runs,
# which makes this Slurm faster than a site's. Needs root.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/setup/lib.sh"

tree=$root/.cache/real-slurm
pidfile=$root/.cache/real-slurm.pid
[ "$(id -u)" = 0 ] || die "real-slurm needs root"

running() { [ -s "$pidfile" ] && kill -0 "$(cat "$pidfile")" 2>/dev/null; }

inside() {
	running || die "real-slurm is not running: real-slurm.sh up"
	nsenter --target "$(cat "$pidfile")" --mount --pid --uts --root --wd -- "$@"
}

# mirror prints where this machine's apt gets Debian from.
mirror() {
	cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
		grep -v '^ *#' | grep -oE 'https?://[^] ]+/debian/?( |$)' | tr -d ' ' | head -n 1
}

install_tree() {
	[ ! -e "$tree/.ready" ] || return 0
	packages_install debootstrap util-linux procps
	from=$(mirror)
	[ -n "$from" ] || die "no Debian mirror in /etc/apt: real-slurm cannot be installed"
	say "installing Debian's Slurm into .cache/real-slurm (minutes, once)"
	rm -rf "$tree"
	mkdir -p "$tree"
	debootstrap --variant=minbase --include=ca-certificates sid "$tree" "$from" >"$tree.log" 2>&1 ||
		{ tail -n 3 "$tree.log" >&2; die "debootstrap failed"; }
	printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d"
	chmod 755 "$tree/usr/sbin/policy-rc.d"
	for file in /etc/apt/apt.conf.d/*proxy* /etc/apt/apt.conf.d/99*; do
		[ ! -e "$file" ] || cp "$file" "$tree/etc/apt/apt.conf.d/"
	done
	cp /etc/resolv.conf "$tree/etc/resolv.conf"
	chroot "$tree" /usr/bin/env DEBIAN_FRONTEND=noninteractive sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends \
		slurmctld slurmd slurmrestd slurm-client slurm-wlm-jwt-plugin' >>"$tree.log" 2>&1 ||
		{ tail -n 3 "$tree.log" >&2; die "Slurm's packages could not be installed"; }
	chroot "$tree" useradd --create-home --shell /bin/sh alice
	touch "$tree/.ready"
}

configure() {
	etc=$tree/etc/slurm
	mkdir -p "$etc"
	head -c 256 /dev/urandom >"$etc/slurm.key"
	cp "$etc/slurm.key" "$etc/jwt.key"
	chmod 600 "$etc/slurm.key" "$etc/jwt.key"
	cat >"$etc/slurm.conf" <<-CONF
		ClusterName=bench
		SlurmctldHost=bench(127.0.0.1)
		SlurmUser=root
		SlurmctldPort=26817
		SlurmdPort=26818
		AuthType=auth/slurm
		CredType=auth/slurm
		AuthAltTypes=auth/jwt
		AuthAltParameters=jwt_key=/etc/slurm/jwt.key
		StateSaveLocation=/var/spool/bench-ctld
		SlurmdSpoolDir=/var/spool/bench-d
		SlurmctldLogFile=/var/log/slurmctld.log
		SlurmdLogFile=/var/log/slurmd.log
		SlurmctldPidFile=/run/slurmctld.pid
		SlurmdPidFile=/run/slurmd.pid
		SlurmdParameters=config_overrides
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		SelectType=select/cons_tres
		MaxJobCount=200000
		SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000
		NodeName=bench NodeAddr=127.0.0.1 CPUs=64 RealMemory=256000
		PartitionName=gpu Nodes=bench Default=YES DefaultTime=60 MaxTime=2-0
	CONF
	echo 'CgroupPlugin=disabled' >"$etc/cgroup.conf"
	echo '127.0.0.1 localhost bench' >"$tree/etc/hosts"
	cat >"$tree/start" <<-'START'
		#!/bin/sh
		# First process of the namespaces.
		mount -t proc proc /proc
		mount -t tmpfs tmpfs /run
		mount -t tmpfs tmpfs /dev
		mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/zero c 1 5; mknod -m 666 /dev/random c 1 8; mknod -m 666 /dev/urandom c 1 9
		mkdir -p /dev/shm /run/slurm
		ln -s /proc/self/fd /dev/fd
		hostname bench
		rm -rf /var/spool/bench-*
		mkdir -p /var/spool/bench-ctld /var/spool/bench-d
		slurmctld -D &
		slurmd -D -N bench &
		until sinfo -h -o %T 2>/dev/null | grep -q idle; do sleep 0.2; done
		id restd >/dev/null 2>&1 || useradd --system restd
		(ulimit -v 12000000; SLURM_JWT=daemon exec setpriv --reuid restd --regid nogroup --clear-groups slurmrestd -a rest_auth/jwt 127.0.0.1:26820) &
		touch /run/ready
		wait
	START
	chmod 755 "$tree/start"
}

case ${1:-} in
up)
	running && exit 0
	install_tree
	configure
	setsid unshare --mount --pid --uts --fork --kill-child chroot "$tree" /start </dev/null >"$tree.log" 2>&1 &
	outer=$!
	for _ in $(seq 300); do
		first=$(pgrep -P "$outer" | head -n 1 || true)
		[ -n "$first" ] && [ -e "/proc/$first/root/run/ready" ] && break
		sleep 0.2
	done
	[ -n "$first" ] && [ -e "/proc/$first/root/run/ready" ] || { tail -n 5 "$tree.log" >&2; kill "$outer" 2>/dev/null || true; die "Slurm did not come up"; }
	echo "$first" >"$pidfile"
	;;
run)
	shift
	inside /usr/bin/setpriv --reuid alice --regid alice --init-groups -- /usr/bin/env -C /home/alice PATH=/usr/bin:/bin HOME=/home/alice USER=alice "$@"
	;;
token) inside scontrol token username=alice lifespan=7200 | sed -n 's/^SLURM_JWT=//p' ;;
pid) inside true && pgrep -x "$2" --ns "$(cat "$pidfile")" --nslist pid | head -n 1 ;;
down)
	! running || kill -9 "$(cat "$pidfile")"
	rm -f "$pidfile"
	;;
*) sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' && exit 2 ;;
esac
