package option

import (
	"slices"
	"strconv"
	"strings"
)

// These options have no effect here, yet what Slurm refuses is refused: a
// mistake in one shows at once, as it would on the cluster the script came from.

func checkAcctgFreq(_ *reader, _ *Values, _ *Option, text string) error {
	for _, item := range strings.Split(text, ",") {
		kind, seconds, named := strings.Cut(item, "=")
		if !named {
			kind, seconds = "task", item
		}
		known := slices.Contains([]string{"task", "energy", "network", "filesystem"}, strings.ToLower(kind))
		if _, err := strconv.ParseUint(seconds, 10, 31); err != nil || !known {
			return usage("Invalid --acctg-freq specification: %s", item)
		}
	}
	return nil
}

// isBind says whether word is one of the names, or one of the forms before a
// colon with a value behind it.
func isBind(word string, names, forms []string) bool {
	form, value, valued := strings.Cut(strings.ToLower(word), ":")
	if valued {
		return value != "" && slices.Contains(forms, form)
	}
	return slices.Contains(names, form)
}

func checkGPUBind(_ *reader, _ *Values, _ *Option, text string) error {
	bind := text
	if word, rest, ok := strings.Cut(text, ","); ok && (strings.EqualFold(word, "verbose") || strings.EqualFold(word, "v")) {
		bind = rest
	}
	if !isBind(bind, []string{"closest", "none"}, []string{"map_gpu", "mask_gpu", "map", "mask", "per_task", "single"}) {
		return usage("Invalid --gpu-bind argument: %s", text)
	}
	return nil
}

func checkMemBind(_ *reader, _ *Values, _ *Option, text string) error {
	words := strings.Split(text, ",")
	for i, w := range words {
		if isBind(w, []string{"q", "quiet", "v", "verbose", "no", "none", "rank", "local", "prefer", "p", "sort", "nosort"}, []string{"map_mem", "mask_mem"}) {
			continue
		}
		if i > 0 && strings.Contains(words[i-1], ":") { // the list of a map goes on
			words[i] = words[i-1]
			continue
		}
		return usage("unrecognized --mem-bind argument %q", w)
	}
	return nil
}

// isFreq says whether text is a frequency: a number, or a word for one.
func isFreq(text string) bool {
	_, err := strconv.ParseUint(text, 10, 32)
	return err == nil || slices.Contains([]string{"low", "medium", "high", "highm1"}, strings.ToLower(text))
}

func isGovernor(text string) bool {
	return slices.Contains([]string{"conservative", "ondemand", "performance", "powersave", "schedutil", "userspace"}, strings.ToLower(text))
}

func checkCPUFreq(_ *reader, _ *Values, _ *Option, text string) error {
	bad := func(line string) error {
		return &Error{Exit: ExitUsage, Lines: []Line{{Err, line}, {Err, "Invalid --cpu-freq argument"}}}
	}
	span, governor, governed := strings.Cut(text, ":")
	low, high, ranged := strings.Cut(span, "-")
	for _, word := range []struct {
		text string
		ok   bool
	}{
		{low, isFreq(low) || !ranged && !governed && isGovernor(low)},
		{high, !ranged || isFreq(high)},
		{governor, !governed || isGovernor(governor)},
	} {
		if !word.ok {
			return bad("unrecognized --cpu-freq argument " + strconv.Quote(word.text))
		}
	}
	if ranged && !governed {
		return bad("You must explicitly choose a governor when defining a range. " +
			"Please specify only one value for the desired frequency (p1) or choose a specific governor (p3).")
	}
	return nil
}

func checkGPUFreq(_ *reader, _ *Values, _ *Option, text string) error {
	for _, item := range strings.Split(text, ",") {
		kind, freq, named := strings.Cut(item, "=")
		switch {
		case strings.EqualFold(item, "verbose"):
		case named && strings.EqualFold(kind, "memory") && isFreq(freq):
		case !named && isFreq(item):
		default:
			return usage("Invalid --gpu-freq argument: gpu:%s", text)
		}
	}
	return nil
}

func checkMemUpdate(_ *reader, _ *Values, o *Option, text string) error {
	margin, delay, ok := strings.Cut(text, "@")
	if !ok {
		return usage("--mem-update requires MARGIN@DELAY format")
	}
	if margin == "" || delay == "" {
		return invalid(o)
	}
	return nil
}

// checkReadable wants a file that can be read.
func checkReadable(r *reader, _ *Values, o *Option, text string) error {
	if _, err := r.file(text); err != nil {
		return invalid(o)
	}
	return nil
}
