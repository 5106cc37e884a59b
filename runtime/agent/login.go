package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/runtime/attempt"
)

// loginScript runs a job in the environment that its user's login gives: the
// login shell's variables first, then the job's own over them, then the script
// in the shell's place. What the profile prints is not the job's output.
// $0 is the shell, $1 the file of the job's own variables.
const loginScript = `eval "$("$0" -l -c 'export -p >&9' 9>&1 >/dev/null 2>&1 </dev/null)"; . "$1"; shift; exec "$@"`

const loginFile = "login_env"

// login puts the user's login environment before the job's where --get-user-env,
// or an --export that leaves something out, asks for it. In a container the image's
// environment is what a login would give.
func (r *run) login(spec *attempt.Spec) error {
	own := newEnviron(spec.Run.Env)
	if own.get("SLURM_GET_USER_ENV") != "1" || r.launch.GetRuntime() == "containerd" {
		return nil
	}
	given := newEnviron(r.launch.GetEnv())
	var text strings.Builder
	for _, name := range own.names {
		// What userEnv filled in is for the login to say.
		if isName(name) && (given.get(name) != "" || strings.HasPrefix(name, "S")) {
			fmt.Fprintf(&text, "export %s='%s'\n", name, strings.ReplaceAll(own.get(name), "'", `'\''`))
		}
	}
	if dir := r.a.commandsDir(); dir != "" && given.get("PATH") == "" {
		fmt.Fprintf(&text, "command -v srun >/dev/null || export PATH='%s':\"$PATH\"\n", dir)
	}
	file := filepath.Join(r.runDir(), loginFile)
	if err := os.WriteFile(file, []byte(text.String()), 0o400); err != nil {
		return err
	}
	if err := os.Chown(file, int(r.launch.GetUser().GetUid()), -1); err != nil && os.Geteuid() == 0 {
		return err
	}
	spec.Run.Env = slices.DeleteFunc(spec.Run.Env, func(kv string) bool {
		return strings.HasPrefix(kv, "PATH=") && given.get("PATH") == ""
	})
	spec.Run.Argv = append([]string{r.shell(), "-c", loginScript, r.shell(), file}, spec.Run.Argv...)
	return nil
}

// shell is the user's own where it is one that reads the script above.
func (r *run) shell() string {
	shell := r.launch.GetUser().GetShell()
	if !slices.Contains([]string{"sh", "bash", "dash", "ksh", "zsh"}, filepath.Base(shell)) {
		return "/bin/sh"
	}
	if _, err := os.Stat(shell); err != nil {
		return "/bin/sh"
	}
	return shell
}

// isName says whether a shell can set the variable.
func isName(name string) bool {
	for i, c := range name {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
