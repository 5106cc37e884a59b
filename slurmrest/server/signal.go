package server

import (
	"strconv"
	"strings"
)

// signals are Linux's names, in the order of their numbers from 1.
var signals = [...]string{
	"HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
	"STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO",
	"PWR", "SYS",
}

// parseSignal reads a name, with or without SIG, or a number.
func parseSignal(s string) (uint8, bool) {
	if n, err := strconv.ParseUint(s, 10, 8); err == nil {
		return uint8(n), n > 0 && n < 65
	}
	name := strings.TrimPrefix(strings.ToUpper(s), "SIG")
	switch name {
	case "CLD":
		name = "CHLD"
	case "POLL":
		name = "IO"
	}
	for i, sig := range signals {
		if sig == name {
			return uint8(i + 1), true
		}
	}
	return 0, false
}

// signalName is the name Slurm prints, or the number where there is none.
func signalName(n uint8) string {
	if n >= 1 && int(n) <= len(signals) {
		return signals[n-1]
	}
	return strconv.Itoa(int(n))
}
