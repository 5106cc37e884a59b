#!/bin/sh
# golden.sh: a cluster of two machines laid out like the one that recordings of a real Slurm were made on.
#
#   golden.sh up BIN DIR     start sbatchd of the folder BIN with everything it keeps below DIR
#   golden.sh exec DIR CMD   run a command there, as root on the host login01
#   golden.sh down DIR       stop it; DIR stays, with the logs
#
# node01 (64 CPUs) and node02 (8) are two agents on this machine. They, their host name, /etc and /home are in
# namespaces of their own: alice (1001) and bob (1002) exist there alone, /etc/sbatchd is this cluster's, and
# nothing survives `down`. GOLDEN_PORT is the first of two TCP ports on the loopback interface: agents, REST.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
verb=${1:?up, exec or down}; shift

conf() {
	cat <<C
ClusterName=base
SlurmctldHost=node01
SlurmUser=root
AgentListen=tcp:127.0.0.1:$port
RestListen=unix:/run/sbatchd/sbatchd.sock,tcp:127.0.0.1:$((port + 1))
StateSaveLocation=$dir/state
AuthAltParameters=jwt_key=/etc/sbatchd/jwt.key
AccountingStorageType=accounting_storage/sqlite
AccountingStorageHost=127.0.0.1
CheckpointStore=file://$dir/store
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
NodeName=node01 NodeHostname=node01 NodeAddr=127.0.0.1 CPUs=64 RealMemory=64000 Feature=fast Weight=1 State=UNKNOWN
NodeName=node02 NodeHostname=node01 NodeAddr=127.0.0.1 Port=16821 CPUs=8 RealMemory=16000 Feature=slow Weight=10 State=UNKNOWN
PartitionName=main Nodes=node01,node02 Default=YES MaxTime=7-00:00:00 DefaultTime=01:00:00 State=UP
PartitionName=short Nodes=node02 MaxTime=30:00 State=UP
PartitionName=closed Nodes=node02 State=DOWN
PartitionName=priv Nodes=node02 AllowGroups=root State=UP
C
}

# inside runs in the namespaces: it makes /etc and /home, starts the daemons and waits for them.
inside() {
	hostname login01
	mount -t tmpfs tmpfs /run && mkdir -p /run/sbatchd
	mount -t tmpfs -o mode=755 tmpfs /home
	mkdir -p "$dir/etc" "$dir/etc.work" "$dir/state" "$dir/store" "$dir/log"
	mount -t overlay -o "lowerdir=/etc,upperdir=$dir/etc,workdir=$dir/etc.work" overlay /etc
	sed -i '/^alice:/d; /^bob:/d' /etc/passwd /etc/group
	id=1001
	for user in alice bob; do
		echo "$user:x:$id:$id::/home/$user:/bin/bash" >>/etc/passwd
		echo "$user:x:$id:" >>/etc/group
		mkdir -p /home/$user && chown $id:$id /home/$user
		id=$((id + 1))
	done
	echo "127.0.0.1 localhost login01 node01 node02" >/etc/hosts
	mount -t overlay -o "lowerdir=$bin:/usr/bin" overlay /usr/bin # the recording's PATH is /usr/bin:/bin
	mkdir -p /etc/sbatchd && conf >/etc/sbatchd/slurm.conf
	(umask 077 && head -c 32 /dev/urandom >/etc/sbatchd/jwt.key)
	"$bin/sbatchd" serve --config /etc/sbatchd >"$dir/log/sbatchd.log" 2>&1 &
	until [ -S /run/sbatchd/sbatchd.sock ]; do
		kill -0 $! || exit 1
		sleep 0.1
	done
	agent node01 64 64000
	agent node02 8 16000
	wait
}

# agent NODE CPUS MIB: starts the agent of a static node.
agent() {
	"$bin/staticnode" -state "$dir/$1" -authority "$dir/state/ca" -node "$1" -cpus "$2" -memory "$3" -controller "tcp:127.0.0.1:$port"
	unshare -u sh -c 'hostname node01 && exec "$@"' sh "$bin/sbatchd-node" agent --state "$dir/$1" >"$dir/log/$1.log" 2>&1 &
}

init() { pgrep -P "$(cat "$dir/pid")"; }
enter() { nsenter -t "$(init)" -m -u -p -r -w -- "$@"; }

case $verb in
up)
	bin=$(cd "$1" && pwd); mkdir -p "$2"; dir=$(cd "$2" && pwd); port=${GOLDEN_PORT:-17810}
	(cd "$root" && CGO_ENABLED=0 go build -o "$bin/staticnode" ./tests/setup/staticnode)
	export bin dir port
	setsid unshare -mup --fork --kill-child --mount-proc "$0" inside </dev/null >"$dir/up.log" 2>&1 &
	echo $! >"$dir/pid"
	for _ in $(seq 100); do
		[ "$(enter "$bin/sinfo" -h -N -p main -o %t 2>/dev/null | sort -u)" = idle ] && exit 0
		sleep 0.2
	done
	echo "golden.sh: the nodes did not come up: see $dir/up.log, $dir/log" >&2
	exit 1
	;;
inside) inside ;;
exec) dir=$1; shift; enter "$@" ;;
down) dir=$1; kill -9 "$(init)" ;; # the first process of a pid namespace takes the others with it
*) echo "golden.sh: $verb?" >&2; exit 2 ;;
esac
