#!/bin/sh
# real-slurm.sh: Debian's own Slurm, newest suite, to run beside sbatchd. Used by tests/bench and tests/differential.
#
#   real-slurm.sh install LAYOUT   install into .cache/real-slurm (minutes, once; 0.6 GB, with accounting 1.2 GB)
#   real-slurm.sh up [LAYOUT]      install, and start empty of jobs: layout bench, the default, or sessions
#   real-slurm.sh run CMD ...      run CMD inside as alice
#   real-slurm.sh root CMD ...     the same as root
#   real-slurm.sh token [USER]     print a token for REST, as alice or USER; REST is on http://127.0.0.1:26820
#   real-slurm.sh pid [NAME]       print the process of slurmctld, slurmd or slurmrestd, as seen from outside; without
#                                  a name the first process inside, whose namespaces are the ones to enter
#   real-slurm.sh down             stop it
#
# bench is one node, 64 CPUs, partition gpu, and no accounting daemon, which makes this Slurm faster than a site's.
# sessions is a small site, the one of tests/differential/ours.go: node01 and node02, partitions main short closed
# priv, alice (uid 1001, account physics) and bob (uid 1002, no account), slurmdbd on MariaDB. All daemons run in a
# chroot with mount, pid and UTS namespaces of their own: nothing is mounted outside them, so `make clean` may delete
# the folder. Needs root.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/setup/lib.sh"

tree=$root/.cache/real-slurm
pidfile=$root/.cache/real-slurm.pid
layoutfile=$root/.cache/real-slurm.layout
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

# install_accounting adds what the sessions need besides.
install_accounting() {
	[ ! -e "$tree/.ready-accounting" ] || return 0
	say "adding slurmdbd and MariaDB to .cache/real-slurm (a minute, once)"
	cp /etc/resolv.conf "$tree/etc/resolv.conf"
	chroot "$tree" /usr/bin/env DEBIAN_FRONTEND=noninteractive sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends \
		slurmdbd mariadb-server' >>"$tree.log" 2>&1 ||
		{ tail -n 3 "$tree.log" >&2; die "slurmdbd's packages could not be installed"; }
	touch "$tree/.ready-accounting"
}

# account NAME UID has a user of that number with a home in /srv, where the sessions run.
account() {
	chroot "$tree" id -u "$1" >/dev/null 2>&1 || chroot "$tree" useradd --create-home --shell /bin/sh --user-group "$1"
	if [ "$(chroot "$tree" id -u "$1")" != "$2" ]; then
		chroot "$tree" groupmod --gid "$2" "$1"
		chroot "$tree" usermod --uid "$2" --gid "$2" "$1"
	fi
	mkdir -p "$tree/srv/home/$1"
	chown "$2:$2" "$tree/srv/home/$1"
}

configure_bench() {
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
	echo '127.0.0.1 localhost bench' >"$tree/etc/hosts"
}

# configure_sessions: the keys that shape answers are those of tests/differential/ours.go, and both must be changed
# together.
configure_sessions() {
	cat >"$etc/slurm.conf" <<-CONF
		ClusterName=rig
		SlurmctldHost=localhost(127.0.0.1)
		SlurmUser=root
		SlurmctldPort=26817
		SlurmdPort=26818
		AuthType=auth/slurm
		CredType=auth/slurm
		AuthAltTypes=auth/jwt
		AuthAltParameters=jwt_key=/etc/slurm/jwt.key
		StateSaveLocation=/var/spool/bench-ctld
		SlurmdSpoolDir=/var/spool/bench-d-%n
		SlurmctldLogFile=/var/log/slurmctld.log
		SlurmdLogFile=/var/log/slurmd-%n.log
		SlurmctldPidFile=/run/slurmctld.pid
		SlurmdPidFile=/run/slurmd-%n.pid
		SlurmdParameters=config_overrides
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		JobAcctGatherType=jobacct_gather/none
		SelectType=select/cons_tres
		SelectTypeParameters=CR_CPU_Memory
		DefMemPerCPU=100
		MaxJobCount=200000
		MaxArraySize=100001
		FirstJobId=41000
		MinJobAge=3600
		KillWait=5
		ReturnToService=2
		PriorityType=priority/multifactor
		AccountingStorageType=accounting_storage/slurmdbd
		AccountingStorageHost=127.0.0.1
		AccountingStoragePort=26819
		SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000
		NodeName=node01 NodeHostname=node01 NodeAddr=127.0.0.1 CPUs=64 RealMemory=64000 Feature=fast Weight=1
		NodeName=node02 NodeHostname=node02 NodeAddr=127.0.0.1 Port=26821 CPUs=8 RealMemory=16000 Feature=slow Weight=10
		PartitionName=main Nodes=node01,node02 Default=YES MaxTime=7-00:00:00 DefaultTime=01:00:00 State=UP
		PartitionName=short Nodes=node02 MaxTime=30:00 State=UP
		PartitionName=closed Nodes=node02 State=DOWN
		PartitionName=priv Nodes=node02 AllowGroups=root State=UP
	CONF
	cat >"$etc/slurmdbd.conf" <<-CONF
		AuthType=auth/slurm
		AuthAltTypes=auth/jwt
		AuthAltParameters=jwt_key=/etc/slurm/jwt.key
		DbdHost=localhost
		DbdPort=26819
		SlurmUser=root
		LogFile=/var/log/slurmdbd.log
		PidFile=/run/slurmdbd.pid
		StorageType=accounting_storage/mysql
		StorageHost=localhost
		StorageLoc=slurm_acct_db
		StorageUser=root
	CONF
	chmod 600 "$etc/slurmdbd.conf"
	echo '127.0.0.1 localhost node01 node02 login01' >"$tree/etc/hosts"
	account alice 1001
	account bob 1002
}

# configure LAYOUT writes the configuration and the first process's script.
configure() {
	etc=$tree/etc/slurm
	mkdir -p "$etc"
	head -c 256 /dev/urandom >"$etc/slurm.key"
	cp "$etc/slurm.key" "$etc/jwt.key"
	chmod 600 "$etc/slurm.key" "$etc/jwt.key"
	echo 'CgroupPlugin=disabled' >"$etc/cgroup.conf"
	configure_"$1"
	cat >"$tree/start" <<-'START'
		#!/bin/sh
		# First process of the namespaces; its argument is the layout.
		mount -t proc proc /proc
		mount -t tmpfs tmpfs /run
		mount -t tmpfs tmpfs /dev
		mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/zero c 1 5; mknod -m 666 /dev/random c 1 8; mknod -m 666 /dev/urandom c 1 9
		mkdir -p /dev/shm /dev/pts /run/slurm
		chmod 1777 /dev/shm
		mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts
		ln -s /dev/pts/ptmx /dev/ptmx
		ln -s /proc/self/fd /dev/fd
		rm -rf /var/spool/bench-*
		mkdir -p /var/spool/bench-ctld
		# at HOST CMD ... runs CMD under a host name of its own.
		at() { unshare --uts sh -c 'hostname "$1"; shift; exec "$@"' sh "$@"; }
		case $1 in
		bench)
			hostname bench
			mkdir -p /var/spool/bench-d
			slurmctld -D &
			slurmd -D -N bench &
			;;
		sessions)
			hostname login01
			mkdir -p /run/mysqld /run/mariadbd
			chown mysql /run/mysqld /run/mariadbd
			mariadbd --skip-networking --user=mysql --innodb-flush-log-at-trx-commit=2 --innodb-snapshot-isolation=OFF &
			until mariadb -e 'select 1' >/dev/null 2>&1; do sleep 0.2; done
			mariadb -e 'drop database if exists slurm_acct_db; create database slurm_acct_db'
			slurmdbd -D &
			until sacctmgr -n list cluster >/dev/null 2>&1; do sleep 0.2; done
			sacctmgr -i add cluster rig >/dev/null
			mkdir -p /var/spool/bench-d-node01 /var/spool/bench-d-node02
			slurmctld -D &
			at node01 slurmd -D -N node01 &
			at node02 slurmd -D -N node02 &
			;;
		esac
		until [ "$(sinfo -h -N -o %T 2>/dev/null | sort -u)" = idle ]; do sleep 0.2; done
		id restd >/dev/null 2>&1 || useradd --system restd
		(ulimit -v 12000000; SLURM_JWT=daemon exec setpriv --reuid restd --regid nogroup --clear-groups slurmrestd -a rest_auth/jwt 127.0.0.1:26820) &
		touch /run/ready
		wait
	START
	chmod 755 "$tree/start"
}

case ${1:-} in
install)
	install_tree
	[ "${2:-bench}" != sessions ] || install_accounting
	;;
up)
	layout=${2:-bench}
	case $layout in bench | sessions) ;; *) die "real-slurm: no layout $layout: bench or sessions" ;; esac
	if running; then
		[ "$(cat "$layoutfile")" = "$layout" ] || die "real-slurm is up in the layout $(cat "$layoutfile"): real-slurm.sh down"
		exit 0
	fi
	install_tree
	[ "$layout" != sessions ] || install_accounting
	configure "$layout"
	setsid unshare --mount --pid --uts --fork --kill-child chroot "$tree" /start "$layout" </dev/null >"$tree.log" 2>&1 &
	outer=$!
	for _ in $(seq 600); do
		first=$(pgrep -P "$outer" | head -n 1 || true)
		[ -n "$first" ] && [ -e "/proc/$first/root/run/ready" ] && break
		sleep 0.2
	done
	[ -n "$first" ] && [ -e "/proc/$first/root/run/ready" ] || { tail -n 5 "$tree.log" >&2; kill -9 "$outer" $first 2>/dev/null || true; die "Slurm did not come up"; }
	echo "$first" >"$pidfile"
	echo "$layout" >"$layoutfile"
	;;
run)
	shift
	inside /usr/bin/setpriv --reuid alice --regid alice --init-groups -- /usr/bin/env -C /home/alice PATH=/usr/bin:/bin HOME=/home/alice USER=alice "$@"
	;;
root)
	shift
	inside /usr/bin/env PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root USER=root "$@"
	;;
token) inside scontrol token username="${2:-alice}" lifespan=7200 | sed -n 's/^SLURM_JWT=//p' ;;
pid)
	running || die "real-slurm is not running: real-slurm.sh up"
	if [ -z "${2:-}" ]; then cat "$pidfile"; else pgrep -x "$2" --ns "$(cat "$pidfile")" --nslist pid | head -n 1; fi
	;;
down)
	! running || kill -9 "$(cat "$pidfile")"
	rm -f "$pidfile" "$layoutfile"
	;;
*) sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' && exit 2 ;;
esac
