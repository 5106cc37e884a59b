package session

import "strings"

// Diff shows where two transcripts differ: "-" lines are the first's, "+" lines the
// second's, under the step that they answer. Equal transcripts have none.
func Diff(a, b string) string {
	if a == b {
		return ""
	}
	x, y := strings.Split(strings.TrimSuffix(a, "\n"), "\n"), strings.Split(strings.TrimSuffix(b, "\n"), "\n")
	// common[i][j] is the length of the longest common subsequence of x[i:] and y[j:].
	common := make([][]int32, len(x)+1)
	for i := range common {
		common[i] = make([]int32, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out strings.Builder
	step, shown := "", ""
	line := func(sign, text string) {
		if step != shown {
			out.WriteString("  " + step + "\n")
			shown = step
		}
		out.WriteString(sign + " " + text + "\n")
	}
	for i, j := 0, 0; i < len(x) || j < len(y); {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			if isPrompt(x[i]) {
				step = x[i]
			}
			i, j = i+1, j+1
		case j == len(y) || i < len(x) && common[i+1][j] >= common[i][j+1]:
			line("-", x[i])
			i++
		default:
			line("+", y[j])
			j++
		}
	}
	return out.String()
}

// isPrompt says whether a line of a transcript is a step.
func isPrompt(line string) bool {
	_, err := parseStep(line)
	return err == nil
}
