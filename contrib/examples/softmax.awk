# softmax.awk: one epoch of multinomial logistic regression by full-batch
# gradient descent. Plain awk that needs no maths library, so that it runs in
# the smallest image.
#
#   awk -F, -v out=FILE [-v rate=2] -f softmax.awk PARAMS DATA.csv
#
# reads the weights from PARAMS ("weight CLASS FEATURE VALUE" lines; an empty
# file means zeros), writes the new ones to FILE, and prints the mean
# cross-entropy and the accuracy of the weights it read: "LOSS ACCURACY".

function exponential(v,    term, total, k) { # e^v: Taylor's series of v/256, squared eight times
	v /= 256
	term = total = 1
	for (k = 1; k <= 8; k++) { term *= v / k; total += term }
	for (k = 1; k <= 8; k++) total *= total
	return total
}

function logarithm(v,    y, e, k) { # ln v by Halley's iteration
	for (k = 0; k < 12; k++) { e = exponential(y); y += 2 * (v - e) / (v + e) }
	return y
}

BEGIN { if (rate == "") rate = 2; features = 4; classes = 3 }

FILENAME == ARGV[1] { if (split($0, f, " ") == 4) w[f[2], f[3]] = f[4]; next }
/^#/ || NF < 5 { next }

{
	n++
	for (j = 1; j <= features; j++) {
		x[n, j] = $j
		sum[j] += $j
		if (n == 1 || $j + 0 < low[j]) low[j] = $j + 0
		if (n == 1 || $j + 0 > high[j]) high[j] = $j + 0
	}
	if (!($5 in class)) class[$5] = ++seen
	y[n] = class[$5]
}

END {
	if (n == 0) { print "softmax.awk: no data" > "/dev/stderr"; exit 1 }
	for (i = 1; i <= n; i++) {
		total = 0
		best = 1
		for (j = 1; j <= features; j++) x[i, j] = (x[i, j] - sum[j] / n) / (high[j] - low[j])
		for (c = 1; c <= classes; c++) {
			score[c] = w[c, 0]
			for (j = 1; j <= features; j++) score[c] += w[c, j] * x[i, j]
			if (score[c] > score[best]) best = c
			likelihood[c] = exponential(score[c])
			total += likelihood[c]
		}
		loss -= logarithm(likelihood[y[i]] / total)
		right += best == y[i]
		for (c = 1; c <= classes; c++) {
			error = likelihood[c] / total - (c == y[i])
			slope[c, 0] += error
			for (j = 1; j <= features; j++) slope[c, j] += error * x[i, j]
		}
	}
	for (c = 1; c <= classes; c++)
		for (j = 0; j <= features; j++)
			printf "weight %d %d %.17g\n", c, j, w[c, j] - rate * slope[c, j] / n > out
	printf "%.6f %.4f\n", loss / n, right / n
}
