package main

import (
	"fmt"

	"github.com/sbatchd/sbatchd/tests/rig"
)

// market is what the pretended cloud sells, and when it takes a spot machine
// back: once, some seconds into its job, with notice.
const market = `Offer=h100-spot Gres=gpu:h100:1 GpuMemory=80G CPUs=4 RealMemory=8000 Spot=yes Price=2.40 Region=eu-1
Offer=h100 Gres=gpu:h100:1 GpuMemory=80G CPUs=4 RealMemory=8000 Price=4.80 Region=eu-1
Reclaim=spot AfterJob=8 Notice=4 Times=1
`

// config is the demo's site: a partition over a cheap spot pool and a dear
// on-demand one.
func config(r *rig.Rig, image string) rig.Config {
	images, how := "", "Runtime=process"
	if image != "" {
		images, how = "ImageName=iris Ref="+image+"\n", "Image=iris"
	}
	return rig.Config{
		Slurm: `SuspendTime=3
ResumeTimeout=60
PartitionName=gpu Pools=spot,ondemand Default=YES MaxTime=1:00:00 DefaultTime=10:00
`,
		Pools: images + fmt.Sprintf(`ProviderName=market Type=local Market=%s Trust=own
PoolName=spot Provider=market Gres=gpu:h100:1 CPUs=4 RealMemory=8000 Capacity=spot MaxNodes=2 MaxPrice=3.00 Workdir=sync Feature=spot %[2]s
PoolName=ondemand Provider=market Gres=gpu:h100:1 CPUs=4 RealMemory=8000 Capacity=ondemand MaxNodes=1 MaxPrice=6.00 Workdir=sync %[2]s
`, r.MarketPath(), how),
		Market: market,
	}
}
