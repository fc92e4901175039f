package api

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
)

// FuzzIPAM reads pools, blocks and IPAM settings from arbitrary JSON. No count is negative, and each assignment has a
// valid address.
func FuzzIPAM(f *testing.F) {
	f.Add([]byte(`{"p":{"cidr":"10.244.0.0/16","blockSize":26,"nodeSelector":"all()"}}`),
		[]byte(`{"b":{"cidr":"10.244.0.0/26","affinity":"host:node-a","unallocated":[1,2,-1,70000],"allocations":[0,null,9],`+
			`"attributes":[{"secondary":{"node":"node-b","namespace":"default","pod":"web"}}]}}`),
		[]byte(`{"default":{"maxBlocksPerHost":1,"strictAffinity":true,"autoAllocateBlocks":false}}`))
	f.Add([]byte(`{"p":{"cidr":"fd00::/48","blockSize":-9223372036854775808}}`), []byte(`{"b":{"cidr":"::/0"}}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, pools, blocks, config []byte) {
		s := clustertest.Snapshot(clustertest.FuzzedNodes("10.0.0.2/24")...)
		s.Pools.Value = clustertest.SpecsOf(pools)
		s.Blocks.Value.Specs, s.IPAM.Value.Config = clustertest.SpecsOf(blocks), clustertest.SpecsOf(config)["default"]
		for _, v6 := range []bool{false, true} {
			r, _ := roomFor(s, v6)
			for _, n := range []int{r.blocks, r.here, r.elsewhere, r.unclaimed, r.reserved, r.leaked, r.borrowed} {
				if n < 0 {
					t.Errorf("%+v", r)
				}
			}
			r.text("node-a")
		}
		for _, spec := range s.Blocks.Value.Specs {
			for _, l := range cluster.LoansIn(spec) {
				if !l.Addr.IsValid() {
					t.Errorf("%+v", l)
				}
			}
		}
	})
}
