package partitions

import (
	"fmt"
	"os"
	"strings"
)

// Password reads the database's password: the value itself, file:PATH or env:NAME.
func (a AccountingStorage) Password() (string, error) {
	if path, ok := strings.CutPrefix(a.Pass, "file:"); ok {
		text, err := os.ReadFile(path)
		return strings.TrimRight(string(text), "\r\n"), err
	}
	if name, ok := strings.CutPrefix(a.Pass, "env:"); ok {
		return variable(name)
	}
	return a.Pass, nil
}

// Credential reads the provider's credential: name=value lines of a file, or of the
// variable that env:NAME names. Names come in lower case.
func (p *Provider) Credential() (map[string]string, error) {
	text, err := "", error(nil)
	if name, ok := strings.CutPrefix(p.CredentialFile, "env:"); ok {
		text, err = variable(name)
	} else if p.CredentialFile != "" {
		var data []byte
		data, err = os.ReadFile(p.CredentialFile)
		text = string(data)
	}
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			out[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
		}
	}
	return out, nil
}

func variable(name string) (string, error) {
	text, ok := os.LookupEnv(name)
	if !ok {
		return "", fmt.Errorf("variable %s is not set", name)
	}
	return text, nil
}
