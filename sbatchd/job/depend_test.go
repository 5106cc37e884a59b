package job_test

import (
	"testing"

	"github.com/sbatchd/sbatchd/sbatchd/job"
)

// TestParseDepends has what a real Slurm 26.05 answered.
func TestParseDepends(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"after:12", "after:12(unfulfilled)"},
		{"after:12+5:13+3", "after:12+5(unfulfilled),after:13+3(unfulfilled)"},
		{"afterok:12?afternotok:12", "afterok:12(unfulfilled)?afternotok:12(unfulfilled)"},
		{"afterok:12,afterany:13", "afterok:12(unfulfilled),afterany:13(unfulfilled)"},
		{"aftercorr:12", "aftercorr:12(unfulfilled)"},
		{"afterburstbuffer:12", "afterburstbuffer:12(unfulfilled)"},
		{"singleton", "singleton(unfulfilled)"},
		{"singleton?afterok:12", "singleton(unfulfilled)?afterok:12(unfulfilled)"},
		{"12", "afterany:12(unfulfilled)"},
		{"afterok:12,13", "afterok:12(unfulfilled),afterany:13(unfulfilled)"},
		{"afterok:12_2", "afterok:12_2(unfulfilled)"},
		{"afterok:12_*", "afterok:12(unfulfilled)"},
		{"afterok:12_[1-2]", "afterok:12_1(unfulfilled),afterok:12_2(unfulfilled)"},
		{"afterok:12_[1,3],after:13", "afterok:12_1(unfulfilled),afterok:12_3(unfulfilled),after:13(unfulfilled)"},
		{"after:12_1+3", "after:12_1+3(unfulfilled)"},
		{"afterok:12+5", "afterok:12+5(unfulfilled)"},
		{"afterok:12:12", "afterok:12(unfulfilled)"},
		{"AFTEROK:12", "afterok:12(unfulfilled)"},
		{"afterok: 12", "afterok:12(unfulfilled)"},
		{"singleton:1", ""},
		{"12:13", ""},
		{"foo:1", ""},
		{"afterok", ""},
		{"afterok:", ""},
		{"afterok:abc", ""},
		{"afterok:-1", ""},
		{"afterok=12", ""},
		{"afterany:0", ""},
		{"afterok:12:afterok:13", ""},
		{"afterok:12,", ""},
		{",afterok:12", ""},
		{"afterok:1?afterany:2,after:3", ""},
		{"expand:12", ""},
	} {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			d, err := job.ParseDepends(c.text)
			if (err == nil) != (c.want != "") || err == nil && d.String() != c.want {
				t.Errorf("%s, %v; want %s", d, err, c.want)
			}
		})
	}
}

func FuzzParseDepends(f *testing.F) {
	for _, s := range []string{"afterok:1:2_3+4,singleton", "1?2", "after:1_[1-9]", "[", "]", ","} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := job.ParseDepends(text); err == nil && text != "" && d.String() == "" {
			t.Errorf("%q became nothing", text)
		}
	})
}
