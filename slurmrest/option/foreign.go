package option

// foreignDirectives reads the lines that were written for another batch
// system.
func foreignDirectives(body []byte, name string) ([]setting, error) {
	return nil, nil
}
