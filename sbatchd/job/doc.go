// Package job holds what a job is: its identity, the description it was
// submitted with, its state and the legal moves between states. It is pure
// data; the queue decides, package state applies. Nothing here reads a clock or
// does I/O.
package job
