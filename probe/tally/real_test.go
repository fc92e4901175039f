//go:build e2e

package tally

import (
	"slices"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealTallies checks for counters of every table that this kernel has.
func TestRealTallies(t *testing.T) {
	if !nstest.Enter(t, "ip link set lo up\ntc qdisc add dev lo root handle 1: pfifo") {
		return
	}
	got := must.Get(All(&probe.Host{Root: "/", Proc: "/proc"}))(t)
	for _, want := range []Tally{{Table: SNMP, Name: "IpInDiscards"}, {Table: SNMP, Name: "Ip6InNoRoutes"},
		{Table: Netstat, Name: "TcpExtListenDrops"}, {Table: Softnet, Name: "dropped"},
		{Table: Conntrack, Name: "insert_failed"}, {Table: XFRM, Name: "XfrmInNoPols"},
		{Table: Link, Of: "lo", Name: "rx_otherhost_dropped"}, {Table: Queue, Of: "lo pfifo 1:0", Name: "drops"}} {
		if !slices.ContainsFunc(got, func(o Tally) bool {
			return o.Table == want.Table && o.Of == want.Of && o.Name == want.Name
		}) {
			t.Errorf("no %+v", want)
		}
	}
}
