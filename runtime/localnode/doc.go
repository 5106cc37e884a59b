// Package localnode is a node made of processes of this machine: what
// provider/local "rents". It holds the machine's folder and its processes:
//
//	sbatchd-node forward --dir D    the machine: outside, in the host's network
//	  sbatchd-node init --dir D     its pid 1 (as root: own mount, pid, net, uts, ipc namespaces)
//	    sbatchd-node agent --state D
//	      shims, containers, jobs
//	  slirp4netns                   the way to the internet, when installed
//
// provider/local writes the folder and starts the machine; runtime/node calls
// [ForwardMain] and [InitMain]. The machine needs no controller: it holds the
// market's deadline and its auto-release time itself, starts a dead agent
// again, and lives exactly as long as it holds the lock of its folder. When
// either of its two processes dies, everything below dies with it, as when a
// cloud takes a machine away.
//
// As root a node sees a root of its own: the host's programs read-only, empty
// /home, /tmp, /var and /srv, its state folder at the same path, and nothing
// else of the host. It has a network of its own: a bridge joins the nodes of a
// pool, no route leads in from the host, and the host's loopback ports are out
// of reach. What the agent itself needs from there goes through two sockets in
// its folder: link.sock (the controller) and egress.sock (HTTP CONNECT).
//
// As an ordinary user there are no namespaces; every process carries the mark
// SBATCHD_INSTANCE=<tag> in its environment and is killed by it.
package localnode
