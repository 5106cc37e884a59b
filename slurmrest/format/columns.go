package format

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sbatchd/sbatchd/partitions/tres"
)

// Context is what values depend on beside their record.
type Context struct {
	Now        time.Time
	Location   *time.Location
	TimeFormat string // SLURM_TIME_FORMAT: empty or standard, relative, or strftime
	NoConvert  bool   // keep the unit of memory sizes
	BitmapLen  int    // SLURM_BITSTR_LEN: bytes of an array's index list; 0: all
}

// Field is one column a command can print. R is the record.
type Field[R any] struct {
	Letter byte   // of -o; 0: none
	Name   string // of -O
	Header string
	Hidden bool // left out of help
	Value  func(c *Context, r *R) string
}

// whole says whether values are never cut: Slurm lets spans of time overflow.
func (f *Field[R]) whole() bool {
	return f.Name == "TimeUsed" || f.Name == "TimeLimit" || f.Name == "TimeLeft"
}

// Column is a Field with its place in a line.
type Column[R any] struct {
	Field  *Field[R]
	Width  int  // 0: as wide as the value
	Auto   bool // as wide as the longest value, at least Width
	Right  bool
	Suffix string
}

// Columns is a parsed format.
type Columns[R any] struct {
	Prefix string
	List   []Column[R]
}

// ByLetter reads the format of -o: %[[.]size]type and text between. Types that
// are not known stay in the text and are returned.
func ByLetter[R any](fields []Field[R], spec string) (c Columns[R], unknown []string) {
	text := func(s string) {
		if n := len(c.List); n > 0 {
			c.List[n-1].Suffix += s
		} else {
			c.Prefix += s
		}
	}
	for {
		before, after, found := strings.Cut(spec, "%")
		text(before)
		if !found {
			return c, unknown
		}
		if rest, ok := strings.CutPrefix(after, "all"); ok {
			for i := range fields {
				if fields[i].Letter != 0 {
					if len(c.List) > 0 && c.List[len(c.List)-1].Suffix == "" {
						c.List[len(c.List)-1].Suffix = "|"
					}
					c.List = append(c.List, Column[R]{Field: &fields[i]})
				}
			}
			spec = rest
			continue
		}
		var col Column[R]
		i := 0
		if strings.HasPrefix(after, ".") {
			col.Right, i = true, 1
		}
		if strings.HasPrefix(after[i:], "#") {
			col.Auto = true
			i++
		}
		for i < len(after) && after[i] >= '0' && after[i] <= '9' && col.Width < 1<<20 {
			col.Width = col.Width*10 + int(after[i]-'0')
			i++
		}
		if i == len(after) {
			text("%" + after)
			return c, unknown
		}
		for k := range fields {
			if fields[k].Letter == after[i] {
				col.Field = &fields[k]
				break
			}
		}
		if col.Field == nil {
			unknown = append(unknown, string(after[i]))
			text("%" + after[:i+1])
		} else {
			c.List = append(c.List, col)
		}
		spec = after[i+1:]
	}
}

// ByName reads the format of -O: Name[:[.][size][suffix]] with commas between;
// the size is 20 unless something follows the colon. Names that are not known
// are left out and returned.
func ByName[R any](fields []Field[R], spec string) (c Columns[R], unknown []string) {
	for _, item := range strings.Split(spec, ",") {
		if item == "" {
			continue
		}
		name, how, told := strings.Cut(item, ":")
		col := Column[R]{Width: 20}
		if told {
			col.Right = strings.HasPrefix(how, ".")
			how = strings.TrimPrefix(how, ".")
			digits := 0
			for digits < len(how) && how[digits] >= '0' && how[digits] <= '9' && digits < 7 {
				digits++
			}
			col.Width, _ = strconv.Atoi(how[:digits]) // no digits: as wide as the value
			col.Suffix = how[digits:]
		}
		if strings.EqualFold(name, "All") {
			for i := range fields {
				if fields[i].Letter != 0 {
					c.List = append(c.List, Column[R]{Field: &fields[i], Suffix: "|"})
				}
			}
			continue
		}
		if col.Field = fieldNamed(fields, name); col.Field == nil {
			unknown = append(unknown, name)
			continue
		}
		c.List = append(c.List, col)
	}
	return c, unknown
}

func fieldNamed[R any](fields []Field[R], name string) *Field[R] {
	for i := range fields {
		if strings.EqualFold(fields[i].Name, name) {
			return &fields[i]
		}
	}
	return nil
}

// Fit sets the width of columns that are as wide as their longest value.
func (c *Columns[R]) Fit(ctx *Context, records []R) {
	for i := range c.List {
		col := &c.List[i]
		if !col.Auto {
			continue
		}
		col.Width = max(col.Width, len(col.Field.Header))
		for k := range records {
			col.Width = max(col.Width, utf8.RuneCountInString(col.Field.Value(ctx, &records[k])))
		}
	}
}

// Header appends the header line.
func (c *Columns[R]) Header(b []byte) []byte {
	b = append(b, c.Prefix...)
	for i := range c.List {
		b = c.List[i].cell(b, c.List[i].Field.Header, false)
	}
	return append(b, '\n')
}

// Line appends the line of one record.
func (c *Columns[R]) Line(b []byte, ctx *Context, r *R) []byte {
	b = append(b, c.Prefix...)
	for i := range c.List {
		b = c.List[i].cell(b, c.List[i].Field.Value(ctx, r), c.List[i].Field.whole())
	}
	return append(b, '\n')
}

func (col *Column[R]) cell(b []byte, value string, whole bool) []byte {
	width := col.Width
	if whole && len(value) > width {
		width = 0
	}
	b = Pad(b, value, width, col.Right)
	return append(b, col.Suffix...)
}

// Pad appends value cut to width and filled with blanks on the side away from
// the text; width 0 is the value as it is. Characters count, not bytes.
func Pad(b []byte, value string, width int, right bool) []byte {
	if width == 0 {
		return append(b, value...)
	}
	n := utf8.RuneCountInString(value)
	if n > width {
		cut := 0
		for range width {
			_, size := utf8.DecodeRuneInString(value[cut:])
			cut += size
		}
		return append(b, value[:cut]...)
	}
	if !right {
		b = append(b, value...)
	}
	for range width - n {
		b = append(b, ' ')
	}
	if right {
		b = append(b, value...)
	}
	return b
}

// Time prints seconds since 1970 as SLURM_TIME_FORMAT says; 0 is none.
func (c *Context) Time(seconds int64, none string) string {
	if seconds <= 0 {
		return none
	}
	t := time.Unix(seconds, 0).In(c.location())
	switch c.TimeFormat {
	case "", "standard":
		return tres.FormatTime(t)
	case "relative":
		return c.relative(t)
	}
	return strftime(c.TimeFormat, t)
}

func (c *Context) location() *time.Location {
	if c.Location != nil {
		return c.Location
	}
	return time.Local
}

// relative leaves out of a time what today makes plain.
func (c *Context) relative(t time.Time) string {
	now := c.Now.In(c.location())
	days := int(math.Round(date(t).Sub(date(now)).Hours() / 24))
	switch {
	case days == 0:
		return t.Format("15:04:05")
	case days == -1:
		return "Ystday " + t.Format("15:04")
	case days == 1:
		return "Tomorr " + t.Format("15:04")
	case days > 1 && days < 7:
		return t.Format("Mon 15:04")
	case t.Year() == now.Year():
		return t.Format("02 Jan 15:04")
	}
	return t.Format("02 Jan 2006")
}

func date(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// strftime knows the conversions that people put into SLURM_TIME_FORMAT.
func strftime(layout string, t time.Time) string {
	var b strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' || i+1 == len(layout) {
			b.WriteByte(layout[i])
			continue
		}
		i++
		switch layout[i] {
		case 's':
			b.WriteString(strconv.FormatInt(t.Unix(), 10))
		case '%':
			b.WriteByte('%')
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		default:
			go2c, ok := strftimeLayouts[layout[i]]
			if !ok {
				b.WriteString(layout[i-1 : i+1])
				continue
			}
			b.WriteString(t.Format(go2c))
		}
	}
	return b.String()
}

var strftimeLayouts = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'H': "15", 'I': "03", 'M': "04", 'S': "05",
	'p': "PM", 'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'j': "002", 'z': "-0700", 'Z': "MST",
	'T': "15:04:05", 'R': "15:04", 'F': "2006-01-02", 'D': "01/02/06", 'c': "Mon Jan _2 15:04:05 2006",
}

// memory prints MiB with the largest unit that keeps them exact.
func (c *Context) memory(mib int64) string {
	if c.NoConvert {
		return tres.FormatUnits(float64(mib), tres.UnitMega, tres.UnitsKeep)
	}
	return tres.Memory(max(mib, 0)).String()
}

// or returns text, or other where it is empty.
func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func null(text string) string { return or(text, "(null)") }

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
