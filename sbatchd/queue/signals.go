package queue

import (
	"strconv"
	"syscall"
)

// signalText is how Slurm names a signal in a reason: the C library's words.
func signalText(n uint8) string {
	words := map[syscall.Signal]string{
		syscall.SIGHUP: "Hangup", syscall.SIGINT: "Interrupt", syscall.SIGQUIT: "Quit",
		syscall.SIGILL: "Illegal_instruction", syscall.SIGTRAP: "Trace/breakpoint_trap",
		syscall.SIGABRT: "Aborted", syscall.SIGBUS: "Bus_error", syscall.SIGFPE: "Floating_point_exception",
		syscall.SIGKILL: "Killed", syscall.SIGUSR1: "User_defined_signal_1", syscall.SIGSEGV: "Segmentation_fault",
		syscall.SIGUSR2: "User_defined_signal_2", syscall.SIGPIPE: "Broken_pipe", syscall.SIGALRM: "Alarm_clock",
		syscall.SIGTERM: "Terminated", syscall.SIGXCPU: "CPU_time_limit_exceeded", syscall.SIGXFSZ: "File_size_limit_exceeded",
	}
	if w, ok := words[syscall.Signal(n)]; ok {
		return w
	}
	return "Signal_" + strconv.Itoa(int(n))
}
