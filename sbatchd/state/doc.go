// Package state is the controller's whole state at one moment: an immutable
// value on copy-on-write trees, and the pure function that moves it on.
//
// Apply(state, event) never reads a clock, a random number or the world; the
// queue decides what happens and when, Apply only says what that changes. A
// reader may hold any State for as long as it likes.
package state
