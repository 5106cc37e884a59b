package sqlstore

import "context"

// Backup is what a migration does first.
func (s *Store) Backup(ctx context.Context, from, to int64) (string, error) {
	return s.d.backup(ctx, s.r, s.cfg, from, to)
}
