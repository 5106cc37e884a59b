package partitions

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Money is an amount in one currency. The zero value is no amount at all.
type Money struct {
	Amount   int64  // millionths of the currency's unit
	Currency string // ISO 4217, as in USD
}

// ErrMoney is returned for a text that is not an amount.
var ErrMoney = errors.New("invalid amount of money")

// microsPerUnit is how many units of Money.Amount make one of the currency.
const microsPerUnit = 1_000_000

// ParseMoney reads an amount with an optional currency before or behind it:
// "3.00" (USD), "60CNY", "60 CNY", "$2.5". It takes at most six decimals.
func ParseMoney(s string) (Money, error) {
	bad := fmt.Errorf("%w: %q (as in 3.00 or 60CNY)", ErrMoney, s)
	text, currency := strings.TrimSpace(s), "USD"
	if rest, ok := strings.CutPrefix(text, "$"); ok {
		text = rest
	} else if i := strings.IndexFunc(text, isLetter); i >= 0 {
		currency = strings.ToUpper(text[i:])
		text = strings.TrimSpace(text[:i])
		if len(currency) != 3 || strings.IndexFunc(currency, func(r rune) bool { return !isLetter(r) }) >= 0 {
			return Money{}, bad
		}
	}
	whole, frac, hasFrac := strings.Cut(text, ".")
	if hasFrac && frac == "" || len(frac) > 6 || !digitsOnly(whole) || (hasFrac && !digitsOnly(frac)) {
		return Money{}, bad
	}
	units, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || units > 1e12 {
		return Money{}, bad
	}
	micros, err := strconv.ParseInt((frac + "000000")[:6], 10, 64)
	if err != nil {
		return Money{}, bad
	}
	return Money{Amount: units*microsPerUnit + micros, Currency: currency}, nil
}

func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

func digitsOnly(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

// IsZero reports whether no amount was given.
func (m Money) IsZero() bool { return m == Money{} }

// String prints at least two decimals and the currency unless it is USD:
// "3.00", "60.00CNY"; empty for no amount.
func (m Money) String() string {
	if m.IsZero() {
		return ""
	}
	sign, n := "", m.Amount
	if n < 0 {
		sign, n = "-", -n
	}
	frac := strings.TrimRight(fmt.Sprintf("%06d", n%microsPerUnit), "0")
	for len(frac) < 2 {
		frac += "0"
	}
	s := fmt.Sprintf("%s%d.%s", sign, n/microsPerUnit, frac)
	if m.Currency != "USD" {
		s += m.Currency
	}
	return s
}
