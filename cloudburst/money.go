package cloudburst

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Money is an amount in millionths of one unit of a currency. The zero value
// is nothing, in no currency: free as a price, "no limit" as a cap.
type Money struct {
	Micros   int64
	Currency string // ISO 4217, upper case; "" only when Micros is 0
}

// DefaultCurrency is meant where a configuration names none.
const DefaultCurrency = "USD"

// String prints the amount with two to six decimals and its currency:
// "2.50USD". The zero Money prints "0.00".
func (m Money) String() string {
	sign, n := "", m.Micros
	if n < 0 {
		sign, n = "-", -n
	}
	frac := strings.TrimRight(fmt.Sprintf("%06d", n%1e6), "0")
	for len(frac) < 2 {
		frac += "0"
	}
	return fmt.Sprintf("%s%d.%s%s", sign, n/1e6, frac, m.Currency)
}

// IsZero reports whether the amount is nothing.
func (m Money) IsZero() bool { return m.Micros == 0 }

// Comparable reports whether two amounts can be compared: same currency, or
// one of them is nothing.
func (m Money) Comparable(o Money) bool {
	return m.Currency == o.Currency || m.IsZero() || o.IsZero()
}

// Cost is what a price per hour comes to over d, rounded half up to a
// millionth. Negative durations cost nothing.
func (m Money) Cost(d time.Duration) Money {
	if d <= 0 || m.Micros == 0 {
		return Money{Currency: m.Currency}
	}
	return Money{Micros: int64(math.Round(float64(m.Micros) * (float64(d) / float64(time.Hour)))), Currency: m.Currency}
}
