//go:build e2e

package ask

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealOverlay breaks a real VXLAN device in every way. The test machine's kernel lacks IPIP and WireGuard, so
// TestJudgeTunnel covers them.
func TestRealOverlay(t *testing.T) {
	if !nstest.Enter(t, checktest.PlaneFurniture) {
		return
	}
	ask := func(more ...probe.Target) []probe.Result {
		return checktest.Run(t, overlayTunnelsCheck, &probe.Host{}, append(more, checktest.VXLANPlan()...)...)
	}
	const dev, peers = "vxlan.calico", "vxlan.calico peers"
	got := ask()
	checktest.Want(t, got, dev, probe.OK, "up with 10.244.0.1, MTU 1450, VNI 4096, port 4789, from 10.9.0.1")
	checktest.Want(t, got, peers, probe.OK, "all 2 other nodes")
	checktest.Want(t, got, "vxlan-v6.calico", probe.OK, "up with fd00:244::1, MTU 1430", "from fd09::1")
	checktest.Want(t, got, "vxlan-v6.calico peers", probe.OK, "all 1 other nodes")
	if len(got) != 4 {
		t.Errorf("%+v", got)
	}
	checktest.Want(t, checktest.Run(t, overlayTunnelsCheck, &probe.Host{}), dev, probe.Unknown, "the API was not queried")
	for kind, saw := range map[string]string{probe.KindPool: "the tunnels of Calico's pools are unknown: forbidden", probe.KindTunnel: "the targets are unknown: forbidden"} {
		var got []probe.Result
		overlayTunnelsCheck.Run(t.Context(), &probe.Pass{
			Targets: []probe.Target{checktest.FelixWith(), checktest.Pool("10.244.0.0/16", "Never", "Always")},
			Gaps:    map[string]string{kind: "forbidden"},
			Report:  func(r probe.Result) { got = append(got, r) },
		})
		checktest.Want(t, got, dev, probe.Unknown, saw)
	}
	got = checktest.Run(t, overlayTunnelsCheck, &probe.Host{}, checktest.FelixWith(),
		checktest.Pool("10.244.0.0/16", "Never", "Never"))
	checktest.Want(t, got, dev, probe.Info,
		"vxlan.calico exists with 10.244.0.1, but Calico's configuration does not use VXLAN")
	checktest.Want(t, checktest.Run(t, overlayTunnelsCheck, &probe.Host{}, checktest.FelixWith("bpfEnabled", "true"),
		checktest.Pool("10.244.0.0/16", "Never", "Never")), "", probe.Skip, "no Calico IP pool uses a tunnel")
	checktest.Want(t, checktest.Run(t, overlayTunnelsCheck, &probe.Host{}, checktest.FelixWith(),
		checktest.Pool("10.244.0.0/16", "Never", "Always")), dev,
		probe.Info, "no address for this node's")
	checktest.Want(t, ask(checktest.FelixWith("vxlanMTU", "1410")), dev, probe.Warn,
		"MTU of vxlan.calico is 1450, but vxlanMTU is 1410")
	checktest.Want(t, ask(checktest.FelixWith("vxlanPort", "4790")), dev, probe.Fail, "UDP port is 4789, not 4790")
	checktest.Want(t, ask(checktest.FelixWith("vxlanVNI", "7")), dev, probe.Fail, "VNI is 4096, not 7")

	checktest.Do(t, "ip link add wireguard.cali type veth peer name wg7", "ip link set wireguard.cali up") // only the name matters
	const wg = "wireguard.cali"
	checktest.Want(t, ask(checktest.FelixWith("wireguardEnabled", "true")), wg, probe.Warn,
		"no address for this node's end")
	checktest.Want(t, ask(checktest.FelixWith("wireguardEnabled", "true", "wireguardHostEncryptionEnabled", "true")), wg,
		probe.Info,
		"no address for this node's")
	checktest.Do(t, "ip link del wireguard.cali")

	checktest.Do(t, "bridge fdb del 66:00:00:00:00:02 dev vxlan.calico dst 10.9.0.2 self")
	checktest.Want(t, ask(), peers, probe.Fail,
		"1 of 2 other nodes are unreachable through the tunnel: b 10.9.0.2 has no forwarding entry for its MAC 66:00:00:00:00:02")
	checktest.Do(t, "bridge fdb add 66:00:00:00:00:02 dev vxlan.calico dst 10.9.0.99 self permanent")
	checktest.Want(t, ask(), peers, probe.Fail, "b 10.9.0.2: packets to its MAC 66:00:00:00:00:02 are sent to 10.9.0.99")
	checktest.Do(t, "ip neigh replace 10.244.1.0 lladdr 66:00:00:00:00:77 dev vxlan.calico nud permanent")
	checktest.Want(t, ask(), peers, probe.Fail,
		"b 10.9.0.2: packets are sent to the MAC 66:00:00:00:00:77, but the node registered 66:00:00:00:00:02")
	checktest.Do(t, "ip neigh del 10.244.1.0 dev vxlan.calico", "ip neigh del 10.244.2.0 dev vxlan.calico")
	r := checktest.Want(t, ask(), peers, probe.Fail, "2 of 2",
		"b 10.9.0.2 has no neighbour entry for its tunnel address 10.244.1.0")
	if cut, _ := r.Facts[overlay.FactCutOff].([]string); len(cut) != 2 {
		t.Errorf("%+v", r.Facts)
	}

	checktest.Do(t, "ip link set vxlan.calico down")
	got = checktest.Lacking(t, overlayTunnelsCheck, &probe.Host{}, probe.GapEtcd, checktest.InEtcd, checktest.FelixWith())
	checktest.Want(t, got, dev, probe.Skip, probe.GapEtcd)
	got = ask()
	checktest.Want(t, got, dev, probe.Fail, "it is down")
	if len(got) != 3 {
		t.Errorf("one fault is told twice: %+v", got)
	}
	checktest.Do(t, "ip link set vxlan.calico address 66:00:00:00:00:09 up", "ip addr del 10.244.0.1/32 dev vxlan.calico")
	checktest.Want(t, ask(), dev, probe.Fail, "it has no address, but Calico registered 10.244.0.1 for it",
		"its MAC is 66:00:00:00:00:09, but the other nodes use 66:00:00:00:00:01")
	checktest.Do(t, "ip addr add 10.244.9.9/32 dev vxlan.calico")
	checktest.Want(t, ask(), dev, probe.Fail, "it has 10.244.9.9")

	checktest.Do(t, "ip link del vxlan.calico",
		"ip link add vxlan.calico type vxlan id 1 local 10.9.0.7 dev eth0 dstport 8472 nolearning",
		"ip link set vxlan.calico up")
	r = checktest.Want(t, ask(), dev, probe.Fail, "its VNI is 1, not 4096", "its UDP port is 8472, not 4789",
		"it sends from 10.9.0.7, but Calico registered 10.9.0.1 for this node")
	if faults, _ := r.Facts[probe.FactFaults].([]string); len(faults) != 5 {
		t.Errorf("%v", r.Facts)
	}
	checktest.Do(t, "ip link del vxlan.calico")
	r = checktest.Want(t, ask(), dev, probe.Fail,
		"interface vxlan.calico does not exist, but Calico uses VXLAN (Always) and registered 10.244.0.1")
	if faults, _ := r.Facts[probe.FactFaults].([]string); len(faults) != 1 || faults[0] != "missing" {
		t.Errorf("%v", r.Facts)
	}
	// The device of the eBPF data plane has no VNI and no entries.
	checktest.Do(t, "ip link del vxlan-v6.calico", "ip link add vxlan.calico type vxlan external dstport 4789",
		"ip addr add 10.244.0.1/32 dev vxlan.calico", "ip link set vxlan.calico address 66:00:00:00:00:01 up")
	got = ask(checktest.FelixWith("bpfEnabled", "true"))
	checktest.Want(t, got, dev, probe.OK, "in eBPF data plane mode")
	checktest.Want(t, got, "vxlan-v6.calico", probe.Skip, "transports both families")
	checktest.Want(t, ask(checktest.FelixWith("bpfEnabled", "false")), "vxlan-v6.calico", probe.Fail,
		"does not exist")
	if len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

// TestRealHostSets removes a node from a real ipset and from a real nftables set.
func TestRealHostSets(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture) {
		return
	}
	ask := func(targets ...probe.Target) []probe.Result {
		if targets == nil {
			targets = checktest.VXLANPlan()
		}
		return checktest.Run(t, ipSetHostsCheck, &probe.Host{}, targets...)
	}
	checktest.Want(t, ask(), "", probe.Skip, "Felix maintains no host set here")
	checktest.Do(t, "ipset create cali40all-vxlan-net hash:net family inet", "ipset add cali40all-vxlan-net 10.9.0.2",
		"ipset add cali40all-vxlan-net 10.77.0.0/24",
		"ipset create cali60all-vxlan-net hash:net family inet6", "ipset add cali60all-vxlan-net fd09::2")
	got := ask()
	checktest.Want(t, got, "cali40all-vxlan-net", probe.OK, "all 2 other nodes are in cali40all-vxlan-net")
	checktest.Want(t, got, "cali60all-vxlan-net", probe.OK, "all 1 other nodes")
	checktest.Do(t, "ipset del cali40all-vxlan-net 10.9.0.2", "ipset del cali60all-vxlan-net fd09::2")
	got = ask()
	checktest.Want(t, got, "cali40all-vxlan-net", probe.Fail,
		"this node drops tunnelled packets from b 10.9.0.2: not in cali40all-vxlan-net")
	checktest.Want(t, got, "cali60all-vxlan-net", probe.Fail, "b fd09::2")
	// the set is stale
	checktest.Want(t, ask(checktest.FelixWith(), checktest.Pool("10.244.0.0/16", "Never", "Never")), "", probe.Skip,
		"no pool uses a tunnel")

	checktest.Do(t, "nft add table ip calico", "nft add set ip calico cali40all-vxlan-net { type ipv4_addr ; flags interval ; }",
		"nft add element ip calico cali40all-vxlan-net { 10.9.0.2, 10.9.0.3, 10.77.0.0/24 }")
	checktest.Want(t, ask(), "cali40all-vxlan-net", probe.OK, "all 2")
	checktest.Do(t, "ipset destroy cali40all-vxlan-net")
	checktest.Want(t, ask(), "cali40all-vxlan-net", probe.OK, "all 2")
	checktest.Do(t, "nft delete element ip calico cali40all-vxlan-net { 10.9.0.2 }")
	checktest.Want(t, ask(), "cali40all-vxlan-net", probe.Fail, "drops tunnelled packets from b 10.9.0.2")

	// IPIP's set is a plain set of networks, so it needs no IPIP in the kernel.
	checktest.Do(t, "nft add set ip calico cali40all-hosts-net { type ipv4_addr ; }",
		"nft add element ip calico cali40all-hosts-net { 10.9.0.2 }")
	ipip := []probe.Target{checktest.FelixWith(), checktest.Pool("10.244.0.0/16", "CrossSubnet", "Never"),
		checktest.TunnelEnd("b", "10.244.1.0", "tunl0", "10.9.0.2", "")}
	checktest.Want(t, ask(ipip...), "cali40all-hosts-net", probe.OK, "all 1")
	checktest.Want(t, ask(append(ipip, checktest.TunnelEnd("c", "10.244.2.0", "tunl0", "10.9.0.3", ""))...),
		"cali40all-hosts-net",
		probe.Fail, "drops tunnelled packets from c 10.9.0.3")
}

// TestRealHostSetsWithoutNetAdmin expects a skip if the IP sets are unreadable.
func TestRealHostSetsWithoutNetAdmin(t *testing.T) {
	if !checktest.WithoutNetAdmin(t) {
		return
	}
	checktest.Want(t, checktest.Run(t, ipSetHostsCheck, &probe.Host{Root: "/", Proc: "/proc"}, checktest.VXLANPlan()...),
		"cali40all-vxlan-net", probe.Skip,
		"without the capability NET_ADMIN")
}
