package format

import (
	"strings"
	"unicode/utf8"
)

// TableField is a column of sacct: a name that is header too, and a width that
// is negative for columns set to the left.
type TableField[R any] struct {
	Name  string
	Width int
	Value func(c *Context, r *R) string
}

// TableColumn is a TableField with the width that was asked for.
type TableColumn[R any] struct {
	Field *TableField[R]
	Width int // characters
	Left  bool
}

// Table is a parsed --format.
type Table[R any] struct {
	List []TableColumn[R]

	Parsable  bool   // fields as long as they are, Delimiter after each
	NoTrail   bool   // with Parsable: no Delimiter after the last
	Delimiter string // default |
}

// ParseTable reads name[%[-]width] with commas between; names may be cut short
// and in any case. bad is the first name that is not known. A width that is told
// holds for every column of that field, also those named before, as in sacct.
func ParseTable[R any](fields []TableField[R], spec string) (t Table[R], bad string) {
	for _, item := range strings.Split(spec, ",") {
		if item == "" {
			continue
		}
		name, width, told := strings.Cut(item, "%")
		var col TableColumn[R]
		if col.Field = tableField(fields, name); col.Field == nil {
			return t, name
		}
		n := col.Field.Width
		for _, other := range t.List {
			if other.Field == col.Field {
				if n = other.Width; other.Left {
					n = -n
				}
			}
		}
		if told {
			digits := strings.TrimPrefix(width, "-")
			n = 0
			for i := 0; i < len(digits) && digits[i] >= '0' && digits[i] <= '9' && n < 1<<20; i++ {
				n = n*10 + int(digits[i]-'0')
			}
			if n == 0 {
				n = max(col.Field.Width, -col.Field.Width)
			}
			if digits != width {
				n = -n
			}
		}
		col.Width, col.Left = max(n, -n), n < 0
		for i := range t.List {
			if t.List[i].Field == col.Field {
				t.List[i].Width, t.List[i].Left = col.Width, col.Left
			}
		}
		t.List = append(t.List, col)
	}
	return t, ""
}

func tableField[R any](fields []TableField[R], name string) *TableField[R] {
	var prefix *TableField[R]
	for i := range fields {
		f := &fields[i]
		if strings.EqualFold(f.Name, name) {
			return f
		}
		if prefix == nil && name != "" && len(f.Name) > len(name) && strings.EqualFold(f.Name[:len(name)], name) {
			prefix = f
		}
	}
	return prefix
}

// Header appends the header, and the line of dashes of the fixed layout.
func (t *Table[R]) Header(b []byte) []byte {
	if t.Parsable {
		return t.line(b, func(i int) string { return t.List[i].Field.Name })
	}
	b = t.line(b, func(i int) string { return string(Pad(nil, t.List[i].Field.Name, t.List[i].Width, !t.List[i].Left)) })
	return t.line(b, func(i int) string { return strings.Repeat("-", t.List[i].Width) })
}

// Line appends one record.
func (t *Table[R]) Line(b []byte, c *Context, r *R) []byte {
	return t.line(b, func(i int) string { return t.List[i].Field.Value(c, r) })
}

func (t *Table[R]) line(b []byte, value func(int) string) []byte {
	for i := range t.List {
		text := value(i)
		if t.Parsable {
			b = append(b, text...)
			if i+1 < len(t.List) || !t.NoTrail {
				b = append(b, or(t.Delimiter, "|")...)
			}
			continue
		}
		col := &t.List[i]
		if n := utf8.RuneCountInString(text); n > col.Width {
			if col.Width > 1 {
				b = Pad(b, text, col.Width-1, false)
			}
			b = append(b, '+')
		} else {
			b = Pad(b, text, col.Width, !col.Left)
		}
		b = append(b, ' ')
	}
	return append(b, '\n')
}

// FieldNames prints the names as sacct --helpformat does: four on a line.
func FieldNames[R any](fields []TableField[R]) string {
	var b []byte
	for i := range fields {
		b = Pad(b, fields[i].Name, 19, false)
		if i%4 == 3 || i == len(fields)-1 {
			b = append(b, '\n')
		} else {
			b = append(b, ' ')
		}
	}
	return string(b)
}
