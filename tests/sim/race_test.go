//go:build race

package sim_test

// usual is how many histories are simulated when nobody says: fewer under the
// race detector, which makes each take several times as long.
const usual = 120
