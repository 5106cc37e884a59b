package assoc

import "github.com/sbatchd/sbatchd/slurmrest/errno"

// Slurm's sentences for who may not.
const (
	notOperator  = "Your user doesn't have privilege to perform this action"
	notCoord     = "Only admins/operators/coordinators can add accounts"
	onlyDefaults = "You can only change your own default account, default wckey nothing else"
)

// operator refuses everybody below an operator.
func (d *Draft) operator() error {
	if d.By.Level >= LevelOperator {
		return nil
	}
	return problem(errno.AccessDenied, "%s", notOperator)
}

// over reports whether the person may change what hangs below an account.
func (d *Draft) over(account string) bool {
	if d.By.Level >= LevelOperator {
		return true
	}
	_, ok := d.By.Coordinates[account]
	return ok
}

// mayAddTo refuses those who may not add to an account.
func (d *Draft) mayAddTo(account string) error {
	if d.over(account) {
		return nil
	}
	return problem(errno.AccessDenied, "%s", notCoord)
}

// maySetLevel refuses to lift anybody above oneself.
func (d *Draft) maySetLevel(l Level) error {
	if d.By.Level >= LevelOperator && l <= d.By.Level {
		return nil
	}
	return problem(errno.AccessDenied, "%s", onlyDefaults)
}
