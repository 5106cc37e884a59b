//go:build !race

package sim_test

// usual is how many histories are simulated when nobody says.
const usual = 300
