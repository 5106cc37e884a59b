//go:build e2e

package e2e_test

// spotMarket sells spot machines and takes none back by itself.
const spotMarket = `Offer=spot CPUs=8 RealMemory=16000 Spot=yes Price=1.20
Offer=plain CPUs=8 RealMemory=16000 Price=3.60
`

// failoverMarket has no spot machine to give for a while.
const failoverMarket = spotMarket + `Fault=create Offer=spot Error=no-capacity Nth=1 Times=1000
`
