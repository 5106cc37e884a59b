package cli_test

import "testing"

func TestScontrolVerbs(t *testing.T) {
	t.Parallel()
	s := newSession(t, &controller{})
	for _, tt := range []struct{ word, out, says string }{
		{"sh", "", "invalid keyword: sh\n"},
		{"bogus", "", "invalid keyword: bogus\n"},
		{"hold", "", "too few arguments for keyword:hold\n"},
		{"rel", "", "too few arguments for keyword:rel\n"},
		{"u", "", "too few arguments for u keyword\n"},
		{"cr", "", "too few arguments for cr keyword\n"},
		{"del", "", "too few arguments for del keyword\n"},
		{"pidinfo", "", "missing argument for keyword:pidinfo\n"},
		{"errnumstr", "", "one arguments required for keyword:errnumstr\n"},
		{"l", "", "No job steps exist on this node.\n"},
		{"reb", "", "Missing node list. Specify ALL|<NodeList>\n"},
	} {
		s.expect(tt.out, tt.says, 1, "scontrol", tt.word)
	}
	s.expect("", "too many arguments for keyword:completing\n", 1, "scontrol", "completing", "x")
	s.expect("Invalid job id specified\n", "", 0, "scontrol", "err", "2017")
	s.expect("", "numeric arguments required for keyword:errnumstr\n", 1, "scontrol", "errnumstr", "x")
	s.expect("", "invalid debug level: bogus\n", 1, "scontrol", "setdebug", "bogus")
	s.expect("", "scontrol: error: RebootProgram isn't defined\nscontrol_reboot_nodes error:Unspecified error\n", 1, "scontrol", "reboot", "node01")
	s.expect("", "job notify failure: Invalid job id specified\n", 1, "scontrol", "notify", "999", "hello")
	s.expect("", "scontrol: Problem running job 999\n", 1, "scontrol", "wait_job", "999")
	s.expect("", "Invalid option: `foo=bar`\n", 1, "scontrol", "token", "foo=bar")
	s.expect("", "", 0, "scontrol", "write", "batch_script")
}
