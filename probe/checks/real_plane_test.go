//go:build e2e

package checks

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// do runs a program of the system in the test's namespaces.
func do(t *testing.T, commands ...string) {
	t.Helper()
	for _, line := range commands {
		args := strings.Fields(line)
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
}

// A node with the VXLAN devices that Felix makes, and two other nodes.
const planeFurniture = furniture + `
ip link add vxlan.calico type vxlan id 4096 local 10.9.0.1 dev eth0 dstport 4789 nolearning
ip link set vxlan.calico address 66:00:00:00:00:01 mtu 1450
ip addr add 10.244.0.1/32 dev vxlan.calico
ip link set vxlan.calico up
bridge fdb add 66:00:00:00:00:02 dev vxlan.calico dst 10.9.0.2 self permanent
ip neigh add 10.244.1.0 lladdr 66:00:00:00:00:02 dev vxlan.calico nud permanent
bridge fdb add 66:00:00:00:00:03 dev vxlan.calico dst 10.77.0.3 self permanent
ip neigh add 10.244.2.0 lladdr 66:00:00:00:00:03 dev vxlan.calico nud permanent
ip link add vxlan-v6.calico type vxlan id 4096 local fd09::1 dev eth0 dstport 4789 nolearning
ip addr add fd00:244::1/128 dev vxlan-v6.calico
ip link set vxlan-v6.calico mtu 1430 up
bridge fdb add 66:00:00:00:00:06 dev vxlan-v6.calico dst fd09::2 self permanent
ip -6 neigh add fd00:244:0:1:: lladdr 66:00:00:00:00:06 dev vxlan-v6.calico nud permanent
`

func pool(cidr, ipip, vxlan string) probe.Target {
	return probe.Target{Kind: probe.KindPool, Name: cidr,
		Attrs: map[string]string{probe.AttrIPIP: ipip, probe.AttrVXLAN: vxlan}}
}

func felixWith(settings ...string) probe.Target {
	t := probe.Target{Kind: probe.KindFelix, Name: "felix", Attrs: map[string]string{}}
	for i := 0; i < len(settings); i += 2 {
		t.Attrs[settings[i]] = settings[i+1]
	}
	return t
}

func tunnelEnd(node, addr, device, outer, mac string) probe.Target {
	t := at(probe.KindTunnel, node, addr)
	t.Attrs = map[string]string{probe.AttrDevice: device, probe.AttrOuter: outer, probe.AttrMAC: mac}
	return t
}

func ownEnd(t probe.Target) probe.Target {
	t.Attrs[probe.AttrOwn] = "true"
	return t
}

// vxlanPlan is what the cluster says of the node in planeFurniture.
func vxlanPlan() []probe.Target {
	return []probe.Target{
		felixWith(), pool("10.244.0.0/16", "Never", "Always"), pool("fd00:244::/48", "Never", "CrossSubnet"),
		at(probe.KindSelf, "a", "10.9.0.1"), at(probe.KindSelf, "a", "fd09::1"), at(probe.KindNode, "b", "10.9.0.2"),
		ownEnd(tunnelEnd("a", "10.244.0.1", "vxlan.calico", "10.9.0.1", "66:00:00:00:00:01")),
		tunnelEnd("b", "10.244.1.0", "vxlan.calico", "10.9.0.2", "66:00:00:00:00:02"),
		tunnelEnd("c", "10.244.2.0", "vxlan.calico", "10.77.0.3", ""), // most clusters keep no MAC
		ownEnd(tunnelEnd("a", "fd00:244::1", "vxlan-v6.calico", "fd09::1", "")),
		tunnelEnd("b", "fd00:244:0:1::", "vxlan-v6.calico", "fd09::2", ""),
	}
}

// TestRealOverlay breaks a real VXLAN device in every way. IPIP and WireGuard this
// machine's kernel does not have; TestTunnelJudged has what is judged of them.
func TestRealOverlay(t *testing.T) {
	if !nstest.Enter(t, planeFurniture) {
		return
	}
	ask := func(more ...probe.Target) []probe.Result {
		return run(t, OverlayTunnels, &probe.Host{}, append(more, vxlanPlan()...)...)
	}
	const dev, peers = "vxlan.calico", "vxlan.calico peers"
	got := ask()
	want(t, got, dev, probe.OK, "up with 10.244.0.1, MTU 1450, VNI 4096, port 4789, from 10.9.0.1")
	want(t, got, peers, probe.OK, "all 2 other nodes")
	want(t, got, "vxlan-v6.calico", probe.OK, "up with fd00:244::1, MTU 1430", "from fd09::1")
	want(t, got, "vxlan-v6.calico peers", probe.OK, "all 1 other nodes")
	if len(got) != 4 {
		t.Errorf("%+v", got)
	}
	want(t, run(t, OverlayTunnels, &probe.Host{}), dev, probe.Unknown, "the API was not asked")
	for kind, saw := range map[string]string{probe.KindPool: "which tunnels Calico's pools use is not known: forbidden", probe.KindTunnel: "the targets are not known: forbidden"} {
		var got []probe.Result
		OverlayTunnels.Run(t.Context(), &probe.Pass{
			Targets: []probe.Target{felixWith(), pool("10.244.0.0/16", "Never", "Always")},
			Gaps:    map[string]string{kind: "forbidden"},
			Report:  func(r probe.Result) { got = append(got, r) },
		})
		want(t, got, dev, probe.Unknown, saw)
	}
	got = run(t, OverlayTunnels, &probe.Host{}, felixWith(), pool("10.244.0.0/16", "Never", "Never"))
	want(t, got, dev, probe.Info,
		"vxlan.calico exists with 10.244.0.1, but nothing in Calico's configuration uses VXLAN")
	want(t, run(t, OverlayTunnels, &probe.Host{}, felixWith("bpfEnabled", "true"),
		pool("10.244.0.0/16", "Never", "Never")), "", probe.Skip, "no pool of Calico's uses a tunnel")
	want(t, run(t, OverlayTunnels, &probe.Host{}, felixWith(), pool("10.244.0.0/16", "Never", "Always")), dev,
		probe.Info, "no address for this node's")
	want(t, ask(felixWith("vxlanMTU", "1410")), dev, probe.Warn,
		"MTU of vxlan.calico is 1450, and vxlanMTU is set to 1410")
	want(t, ask(felixWith("vxlanPort", "4790")), dev, probe.Fail, "UDP port is 4789, not 4790")
	want(t, ask(felixWith("vxlanVNI", "7")), dev, probe.Fail, "VNI is 4096, not 7")

	do(t, "ip link add wireguard.cali type veth peer name wg7", "ip link set wireguard.cali up") // for its name
	const wg = "wireguard.cali"
	want(t, ask(felixWith("wireguardEnabled", "true")), wg, probe.Warn, "no address for this node's end")
	want(t, ask(felixWith("wireguardEnabled", "true", "wireguardHostEncryptionEnabled", "true")), wg, probe.Info,
		"no address for this node's")
	do(t, "ip link del wireguard.cali")

	do(t, "bridge fdb del 66:00:00:00:00:02 dev vxlan.calico dst 10.9.0.2 self")
	want(t, ask(), peers, probe.Fail,
		"1 of 2 other nodes are not reached through the tunnel: b 10.9.0.2 has no forwarding entry for its MAC 66:00:00:00:00:02")
	do(t, "bridge fdb add 66:00:00:00:00:02 dev vxlan.calico dst 10.9.0.99 self permanent")
	want(t, ask(), peers, probe.Fail, "b 10.9.0.2: packets to its MAC 66:00:00:00:00:02 are sent to 10.9.0.99")
	do(t, "ip neigh replace 10.244.1.0 lladdr 66:00:00:00:00:77 dev vxlan.calico nud permanent")
	want(t, ask(), peers, probe.Fail,
		"b 10.9.0.2: packets are sent to the MAC 66:00:00:00:00:77, but it registered 66:00:00:00:00:02")
	do(t, "ip neigh del 10.244.1.0 dev vxlan.calico", "ip neigh del 10.244.2.0 dev vxlan.calico")
	r := want(t, ask(), peers, probe.Fail, "2 of 2",
		"b 10.9.0.2 has no neighbour entry for its tunnel address 10.244.1.0")
	if cut, _ := r.Facts[FactCutOff].([]string); len(cut) != 2 {
		t.Errorf("%+v", r.Facts)
	}

	do(t, "ip link set vxlan.calico down")
	got = lacking(t, OverlayTunnels, &probe.Host{}, probe.GapEtcd, inEtcd, felixWith())
	want(t, got, dev, probe.Skip, probe.GapEtcd)
	got = ask()
	want(t, got, dev, probe.Fail, "it is down")
	if len(got) != 3 {
		t.Errorf("one fault is told twice: %+v", got)
	}
	do(t, "ip link set vxlan.calico address 66:00:00:00:00:09 up", "ip addr del 10.244.0.1/32 dev vxlan.calico")
	want(t, ask(), dev, probe.Fail, "it has no address, but Calico registered 10.244.0.1 for it",
		"its MAC is 66:00:00:00:00:09, but the other nodes use 66:00:00:00:00:01")
	do(t, "ip addr add 10.244.9.9/32 dev vxlan.calico")
	want(t, ask(), dev, probe.Fail, "it has 10.244.9.9")

	do(t, "ip link del vxlan.calico",
		"ip link add vxlan.calico type vxlan id 1 local 10.9.0.7 dev eth0 dstport 8472 nolearning",
		"ip link set vxlan.calico up")
	r = want(t, ask(), dev, probe.Fail, "its VNI is 1, not 4096", "its UDP port is 8472, not 4789",
		"it sends from 10.9.0.7, but Calico registered 10.9.0.1 for this node")
	if faults, _ := r.Facts[FactFaults].([]string); len(faults) != 5 {
		t.Errorf("%v", r.Facts)
	}
	do(t, "ip link del vxlan.calico")
	r = want(t, ask(), dev, probe.Fail,
		"there is no interface vxlan.calico, though Calico uses VXLAN (Always) and registered 10.244.0.1")
	if faults, _ := r.Facts[FactFaults].([]string); len(faults) != 1 || faults[0] != "missing" {
		t.Errorf("%v", r.Facts)
	}
	// As the eBPF data plane has it: no VNI and no entries.
	do(t, "ip link del vxlan-v6.calico", "ip link add vxlan.calico type vxlan external dstport 4789",
		"ip addr add 10.244.0.1/32 dev vxlan.calico", "ip link set vxlan.calico address 66:00:00:00:00:01 up")
	got = ask(felixWith("bpfEnabled", "true"))
	want(t, got, dev, probe.OK, "in the mode of the eBPF data plane")
	want(t, got, "vxlan-v6.calico", probe.Skip, "carries both families")
	want(t, ask(felixWith("bpfEnabled", "false")), "vxlan-v6.calico", probe.Fail, "there is no interface")
	if len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

// TestRealMTU gives the parts of a pod's path sizes that do not agree.
func TestRealMTU(t *testing.T) {
	if !nstest.Enter(t, planeFurniture+`
ip link add cali0123456789a mtu 1450 type veth peer name pod1
ip link add cali0123456789b mtu 1450 type veth peer name pod2
`) {
		return
	}
	conf := func(mtu string) string {
		return `{"name":"k8s-pod-network","plugins":[{"type":"calico","mtu":` + mtu + `},{"type":"portmap"}]}`
	}
	h := node(t, map[string]string{"etc/cni/net.d/10-calico.conflist": conf("0"), "var/lib/calico/mtu": "1450\n"})
	ask := func(more ...probe.Target) []probe.Result { return run(t, CNIMTU, h, append(more, vxlanPlan()...)...) }
	set := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(h.Root+"/"+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want(t, ask(), "", probe.OK, "new pods get MTU 1450 (/var/lib/calico/mtu), and vxlan.calico carries 1450")
	want(t, run(t, CNIMTU, h, backend("bird")), "", probe.Skip, "no address is registered")

	do(t, "ip link set cali0123456789b mtu 1480")
	want(t, ask(), "", probe.Warn,
		"1 pod interfaces have an older MTU of up to 1480, but vxlan.calico carries at most 1450")
	set("var/lib/calico/mtu", "1440")
	do(t, "ip link set cali0123456789b mtu 1450")
	want(t, ask(), "", probe.Info, "2 pod interfaces have an older MTU of up to 1450, which fits")
	set("etc/cni/net.d/10-calico.conflist", conf("1500"))
	want(t, ask(), "", probe.Warn, "new pods get MTU 1500 (/etc/cni/net.d/10-calico.conflist)",
		"depend on path MTU discovery")
	// The kernel takes no such MTU while the interface below has its own; but that may shrink.
	do(t, "ip link set eth0 mtu 9000", "ip link set vxlan.calico mtu 1500", "ip link set eth0 mtu 1500")
	want(t, ask(), "", probe.Fail, "new pods get MTU 1500",
		"vxlan.calico accepts 1500: with 50 bytes of VXLAN that exceeds the MTU of eth0, 1500")
	set("etc/cni/net.d/10-calico.conflist", conf("1450"))
	want(t, ask(), "", probe.Info, "vxlan.calico accepts 1500", "pods send less")
	pools := []string{probe.KindPool}
	var unpooled []probe.Target // as without the right to read the pools
	for _, target := range vxlanPlan() {
		if target.Kind != probe.KindPool {
			unpooled = append(unpooled, target)
		}
	}
	set("etc/cni/net.d/10-calico.conflist", conf("1500"))
	want(t, lacking(t, CNIMTU, h, "forbidden", pools, unpooled...), "", probe.Unknown,
		"vxlan.calico accepts 1500: with 50 bytes of VXLAN that exceeds the MTU of eth0, 1500; which tunnels Calico's pools use is not known: forbidden")
	want(t, lacking(t, CNIMTU, h, probe.GapEtcd, pools, unpooled...), "", probe.Skip, "exceeds the MTU")
	set("etc/cni/net.d/10-calico.conflist", conf("1450"))
	do(t, "ip link set vxlan.calico mtu 1450", "ip link set eth0 mtu 1400")
	r := want(t, ask(), "", probe.Fail, "vxlan.calico accepts 1450", "exceeds the MTU of eth0, 1400")
	if room, _ := r.Facts.Num(FactRoom); room != 1350 {
		t.Errorf("%+v", r.Facts)
	}
	do(t, "ip link set eth0 mtu 9000", "ip link set vxlan.calico mtu 8950")
	want(t, ask(), "", probe.Info, "new pods get MTU 1450", "8950 would fit through vxlan.calico")

	// Without another subnet, CrossSubnet packs nothing; with one it does.
	do(t, "ip link set vxlan.calico mtu 1500", "ip link set eth0 mtu 1500")
	set("etc/cni/net.d/10-calico.conflist", conf("1500"))
	plan := []probe.Target{felixWith(), pool("10.244.0.0/16", "Never", "CrossSubnet"),
		at(probe.KindSelf, "a", "10.9.0.1"), tunnelEnd("b", "10.244.1.0", "vxlan.calico", "10.9.0.2", "")}
	want(t, run(t, CNIMTU, h, plan...), "", probe.OK, "eth0 carries 1500")
	want(t, run(t, CNIMTU, h, append(plan, tunnelEnd("c", "10.244.2.0", "vxlan.calico", "10.77.0.3", ""))...), "",
		probe.Fail, "exceeds the MTU")

	do(t, "ip link set eth0 mtu 1460")
	want(t, run(t, CNIMTU, h, plan...), "", probe.Warn, "eth0 carries at most 1460")
	do(t, "ip link del cali0123456789a", "ip link del cali0123456789b")
	want(t, run(t, CNIMTU, node(t, map[string]string{"x": ""}), plan...), "", probe.Skip, "no cali* interface")
}

// TestRealFirewall puts Calico's chains into each of Linux's firewalls, and into
// two.
func TestRealFirewall(t *testing.T) {
	if !nstest.Enter(t, furniture+"ip link add cali0123456789a type veth peer name pod1\n") {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	ask := func(settings ...string) []probe.Result { return run(t, NodeFirewall, h, felixWith(settings...)) }
	want(t, ask(), "IPv4", probe.Fail, "no firewall has Calico's chains, but there are 1 pod interfaces")
	want(t, run(t, NodeFirewall, h), "IPv4", probe.Info, "no firewall has Calico's chains") // the data plane is not known
	want(t, ask("bpfEnabled", "true"), "", probe.Skip, "eBPF")

	do(t, "iptables-legacy -N cali-FORWARD", "iptables-legacy -N cali-INPUT",
		"iptables-legacy -A FORWARD -s 10.0.0.0/8 -m comment --comment other -j RETURN",
		"ip6tables-legacy -N cali-FORWARD")
	got := ask()
	want(t, got, "IPv4", probe.Fail, "Calico's chains are in legacy iptables, but no rule of FORWARD leads to them")
	want(t, got, "IPv6", probe.Fail, "no rule of FORWARD leads to them")
	do(t, "iptables-legacy -A FORWARD -j cali-FORWARD", "ip6tables-legacy -I FORWARD -j cali-FORWARD")
	got = ask()
	r := want(t, got, "IPv4", probe.OK, "in use only in legacy iptables")
	if n, _ := r.Facts[FactChains].(map[string]int); n[inLegacy] != 2 {
		t.Errorf("%+v", r.Facts)
	}
	want(t, got, "IPv6", probe.OK, "in use only in legacy iptables")

	// docker on the other backend
	do(t, "iptables-nft -P FORWARD DROP")
	want(t, ask(), "IPv4", probe.Warn,
		"the policy of FORWARD of iptables-nft drops what no rule there accepts, and Calico's chains are in legacy iptables")
	do(t, "iptables-nft -P FORWARD ACCEPT", "iptables-legacy -P FORWARD DROP")
	want(t, ask(), "IPv4", probe.OK, "only in legacy iptables") // what Calico accepts is accepted there
	do(t, "iptables-nft -t nat -N KUBE-SERVICES")
	want(t, ask(), "IPv4", probe.Info, "kube-proxy's are in iptables-nft")

	do(t, "iptables-nft -N cali-FORWARD")
	want(t, ask(), "IPv4", probe.Info, "unused ones are left over in iptables-nft")
	do(t, "iptables-nft -I FORWARD -j cali-FORWARD")
	r = want(t, ask(), "IPv4", probe.Fail,
		"forwarded packets pass Calico's chains in legacy iptables and in iptables-nft")
	if in, _ := r.Facts[FactInUse].([]string); len(in) != 2 {
		t.Errorf("%+v", r.Facts)
	}
	do(t, "ip6tables-legacy -F", "ip6tables-legacy -X")
	six := run(t, NodeFirewall, h, felixWith(), at(probe.KindSelf, "a", "fd09::1"))
	want(t, six, "IPv6", probe.Fail, "no firewall has Calico's chains") // which Calico writes where it has IPv6
	if got := ask(); len(got) != 1 {
		t.Errorf("without IPv6: %+v", got)
	}
	do(t, "iptables-legacy -F", "iptables-legacy -X", "iptables-legacy -P FORWARD ACCEPT")
	want(t, ask(), "IPv4", probe.OK, "in use only in iptables-nft")

	// Felix's own table, as its nftables mode has it
	do(t, "iptables-nft -F", "iptables-nft -X", "iptables-nft -t nat -X", "nft add table ip calico",
		"nft add chain ip calico filter-cali-FORWARD",
		"nft add chain ip calico filter-FORWARD { type filter hook forward priority 0 ; policy accept ; }",
		"nft add rule ip calico filter-FORWARD jump filter-cali-FORWARD")
	want(t, ask(), "IPv4", probe.OK, "in use only in nftables")
	do(t, "nft add table inet mine",
		"nft add chain inet mine f { type filter hook forward priority 0 ; policy drop ; }")
	r = want(t, ask(), "IPv4", probe.Info, "in use only in nftables", "dropped by the policy of f of nftables' table mine") // by hand, and taken to know the pods
	if drops, _ := r.Facts[FactDrops].([]string); len(drops) != 1 || drops[0] != "f of nftables' table mine" {
		t.Errorf("%+v", r.Facts)
	}
}

// TestRealHostSets leaves a node out of a real ipset and of a real set of nftables.
func TestRealHostSets(t *testing.T) {
	if !nstest.Enter(t, furniture) {
		return
	}
	ask := func(targets ...probe.Target) []probe.Result {
		if targets == nil {
			targets = vxlanPlan()
		}
		return run(t, IPSetHosts, &probe.Host{}, targets...)
	}
	want(t, ask(), "", probe.Skip, "Felix keeps no set of peers here")
	do(t, "ipset create cali40all-vxlan-net hash:net family inet", "ipset add cali40all-vxlan-net 10.9.0.2",
		"ipset add cali40all-vxlan-net 10.77.0.0/24",
		"ipset create cali60all-vxlan-net hash:net family inet6", "ipset add cali60all-vxlan-net fd09::2")
	got := ask()
	want(t, got, "cali40all-vxlan-net", probe.OK, "all 2 other nodes are in cali40all-vxlan-net")
	want(t, got, "cali60all-vxlan-net", probe.OK, "all 1 other nodes")
	do(t, "ipset del cali40all-vxlan-net 10.9.0.2", "ipset del cali60all-vxlan-net fd09::2")
	got = ask()
	want(t, got, "cali40all-vxlan-net", probe.Fail,
		"tunnelled packets from b 10.9.0.2 are dropped here: not in cali40all-vxlan-net")
	want(t, got, "cali60all-vxlan-net", probe.Fail, "b fd09::2")
	// the set is left over
	want(t, ask(felixWith(), pool("10.244.0.0/16", "Never", "Never")), "", probe.Skip, "no pool uses a tunnel")

	do(t, "nft add table ip calico", "nft add set ip calico cali40all-vxlan-net { type ipv4_addr ; flags interval ; }",
		"nft add element ip calico cali40all-vxlan-net { 10.9.0.2, 10.9.0.3, 10.77.0.0/24 }")
	want(t, ask(), "cali40all-vxlan-net", probe.OK, "all 2")
	do(t, "ipset destroy cali40all-vxlan-net")
	want(t, ask(), "cali40all-vxlan-net", probe.OK, "all 2")
	do(t, "nft delete element ip calico cali40all-vxlan-net { 10.9.0.2 }")
	want(t, ask(), "cali40all-vxlan-net", probe.Fail, "from b 10.9.0.2 are dropped here")

	// IPIP's set is plain sets of nets, whether or not the kernel has IPIP.
	do(t, "nft add set ip calico cali40all-hosts-net { type ipv4_addr ; }",
		"nft add element ip calico cali40all-hosts-net { 10.9.0.2 }")
	ipip := []probe.Target{felixWith(), pool("10.244.0.0/16", "CrossSubnet", "Never"),
		tunnelEnd("b", "10.244.1.0", "tunl0", "10.9.0.2", "")}
	want(t, ask(ipip...), "cali40all-hosts-net", probe.OK, "all 1")
	want(t, ask(append(ipip, tunnelEnd("c", "10.244.2.0", "tunl0", "10.9.0.3", ""))...), "cali40all-hosts-net",
		probe.Fail, "from c 10.9.0.3 are dropped")
}

// TestRealServiceChains flushes what kube-proxy has written.
func TestRealServiceChains(t *testing.T) {
	if !nstest.Enter(t, furniture+`
iptables-nft -t nat -N KUBE-SERVICES
iptables-nft -t nat -N KUBE-SVC-AAAA
nft add table ip kube-proxy
nft add chain ip kube-proxy services
nft add chain ip kube-proxy service-AAAA-default/kubernetes/tcp/https
`) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	kubeProxyIn(t, "iptables")
	want(t, run(t, KubeProxyHealth, h), "services", probe.OK, "1 ports of services have chains in iptables")
	do(t, "iptables-nft -t nat -F", "iptables-nft -t nat -X", "iptables-legacy -t nat -N KUBE-SERVICES",
		"iptables-legacy -t nat -N KUBE-SVC-A", "iptables-legacy -t nat -N KUBE-SVC-B")
	want(t, run(t, KubeProxyHealth, h), "services", probe.OK, "2 ports")
	do(t, "iptables-legacy -t nat -X")
	want(t, run(t, KubeProxyHealth, h), "services", probe.Fail,
		"mode iptables, but there is no chain KUBE-SERVICES in iptables: no service works from this node")
}

func TestRealServiceTable(t *testing.T) {
	if !nstest.Enter(t, furniture+`
nft add table ip6 kube-proxy
nft add chain ip6 kube-proxy services
nft add chain ip6 kube-proxy service-AAAA-default/kubernetes/tcp/https
`) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	kubeProxyIn(t, "nftables")
	want(t, run(t, KubeProxyHealth, h), "services", probe.OK, "1 ports of services have chains in nftables")
	if r := left(&probe.Pass{Host: &probe.Host{Proc: t.TempDir()}}, "its port"); r.Status != probe.Warn ||
		!strings.Contains(r.Saw, "rules for 1 services are still here (nftables)") {
		t.Errorf("%+v", r)
	}
	do(t, "nft flush ruleset")
	want(t, run(t, KubeProxyHealth, h), "services", probe.Fail, "no table kube-proxy in nftables")
}

// withoutNetAdmin starts the test again without the capability, on the test's furniture, and reports whether this is
// that second run.
func withoutNetAdmin(t *testing.T) bool {
	t.Helper()
	if os.Getenv("WITHOUT_NET_ADMIN") != "" {
		return true
	}
	if !nstest.Enter(t, furniture+"ip link add cali0123456789a type veth peer name pod1\niptables-legacy -N cali-FORWARD\n") {
		return false
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("setpriv", "--bounding-set", "-net_admin", self, "-test.v", "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), "WITHOUT_NET_ADMIN=1")
	if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// TestRealFirewallWithoutNetAdmin wants the firewall skipped where it cannot be read.
func TestRealFirewallWithoutNetAdmin(t *testing.T) {
	if !withoutNetAdmin(t) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	want(t, run(t, NodeFirewall, h, felixWith()), "", probe.Skip, "without the capability NET_ADMIN")
	if _, err := kernel.LegacyChains(h, "filter"); err == nil {
		t.Error("legacy iptables could be read")
	}
}

// TestRealHostSetsWithoutNetAdmin wants IP sets skipped where they cannot be read.
func TestRealHostSetsWithoutNetAdmin(t *testing.T) {
	if !withoutNetAdmin(t) {
		return
	}
	want(t, run(t, IPSetHosts, &probe.Host{Root: "/", Proc: "/proc"}, vxlanPlan()...), "cali40all-vxlan-net", probe.Skip,
		"without the capability NET_ADMIN")
}

// TestRealServicesWithoutNetAdmin wants nothing said of kube-proxy's rules where they cannot be read.
func TestRealServicesWithoutNetAdmin(t *testing.T) {
	if !withoutNetAdmin(t) {
		return
	}
	for _, mode := range []string{"iptables", "nftables"} {
		if r, seen := published(&probe.Host{Root: "/", Proc: "/proc"}, mode); seen {
			t.Errorf("%s: %+v", mode, r)
		}
	}
}
