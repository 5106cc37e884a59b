// Package e2e tests sbatchd from outside, as a user types: the built programs
// against the real containerd, a real registry, S3 server and SSH server, with
// nodes in mount and network namespaces of their own. Its tests carry the build
// tag e2e; `make e2e` installs what they need and runs them. What cannot be had
// on a machine is skipped by name.
//
// Each test has a controller, a configuration and a folder of its own (package
// rig) and ends by looking for what it left on the machine.
package e2e
