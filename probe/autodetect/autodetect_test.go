package autodetect

import (
	"errors"
	"net/netip"
	"testing"
)

func nic(index int, name, kind string, addrs ...string) Interface {
	i := Interface{Index: index, Name: name, Kind: kind}
	for _, a := range addrs {
		i.Addrs = append(i.Addrs, netip.MustParsePrefix(a))
	}
	return i
}

// incident3 is the node of incident 003: a second NIC was added later. incident4 is that of 004: 'docker network
// create' created a bridge.
var (
	incident3 = Node{Version: "v3.9.5", Internal: []netip.Addr{netip.MustParseAddr("172.17.73.66")},
		Interfaces: []Interface{
			nic(1, "lo", "device", "127.0.0.1/8", "::1/128"), nic(2, "ens192", "device", "172.17.73.66/24"),
			nic(3, "docker0", "bridge", "172.17.0.1/16"),
			nic(4, "tunl0", "ipip", "10.244.1.0/32"), nic(9, "ens224", "device", "10.0.0.66/24", "fe80::1/64"),
			nic(10, "cali0", "veth"),
		}}
	incident4 = Node{Version: "v3.15.0", Interfaces: []Interface{
		nic(2, "eth0", "device", "192.168.1.5/24", "2001:db8::5/64"), nic(5, "docker0", "bridge", "172.17.0.1/16"),
		nic(7, "br-0a1b2c3d4e5f", "bridge", "172.18.0.1/16"), nic(8, "kube-ipvs0", "dummy", "10.96.0.1/32"),
	}}
)

// Older kernels list interfaces by their number modulo 256.
var (
	eth0   = nic(2, "eth0", "device", "10.1.1.1/24")
	lo     = Node{Interfaces: []Interface{nic(2, "slow0", "device", "10.1.1.1/24")}}
	vx     = Node{Interfaces: []Interface{eth0, nic(5, "vxlan.calico", "vxlan", "10.244.1.0/32")}}
	local  = Node{Interfaces: []Interface{eth0, nic(5, "nodelocaldns", "dummy", "10.9.9.9/32")}}
	hashed = Node{Version: "v3.32.1", Interfaces: []Interface{nic(257, "ens224", "device", "10.2.2.2/24"), eth0}}
)

func (n Node) at(version string) Node { n.Version = version; return n }

func TestDetect(t *testing.T) {
	reach := func(n Node, a string, err error) Node {
		n.Reach = func(string, int) (netip.Addr, error) { return netip.MustParseAddr(a), err }
		return n
	}
	for _, c := range []struct {
		name   string
		node   Node
		method string
		family int
		want   string
		err    error
	}{
		{"the newer NIC wins", incident3, "first-found", 4, "10.0.0.66 on ens224 (device)", nil},
		{"empty is first-found", incident3, "", 4, "10.0.0.66 on ens224 (device)", nil},
		{"internal IP", incident3.at("v3.22.0"), "kubernetes-internal-ip", 4, "172.17.73.66 on ens192 (device)", nil},
		{"interface", incident3, "interface=ens1.*,eth.*", 4, "172.17.73.66 on ens192 (device)", nil},
		{"interface ignores the exclusions", incident3, "interface=docker0", 4, "172.17.0.1 on docker0 (bridge)", nil},
		{"skip-interface adds to them", incident3, "skip-interface=ens22.*", 4, "172.17.73.66 on ens192 (device)", nil},
		{"cidr", incident3, "cidr=192.168.0.0/16,172.17.73.0/24", 4, "172.17.73.66 on ens192 (device)", nil},
		{"can-reach", reach(incident3, "172.17.73.66", nil), "can-reach=172.17.73.1", 4,
			"172.17.73.66 on ens192 (device)", nil},
		{"can-reach of no interface", reach(incident3, "192.0.2.1", nil), "can-reach=1.2.3.4", 4, "", errNoAddress},
		{"no IPv6", incident3, "first-found", 6, "", errNoAddress},
		{"docker's bridge before v3.25", incident4, "first-found", 4, "172.18.0.1 on br-0a1b2c3d4e5f (bridge)", nil},
		{"docker's bridge in v3.24.6", incident4.at("v3.24.6"), "first-found", 4,
			"172.18.0.1 on br-0a1b2c3d4e5f (bridge)", nil},
		{"docker's bridge from v3.25", incident4.at("v3.25.0"), "first-found", 4, "192.168.1.5 on eth0 (device)", nil},
		{"kube-ipvs0 before v3.1", incident4.at("v2.6.0"), "first-found", 4, "10.96.0.1 on kube-ipvs0 (dummy)", nil},
		{"IPv6", incident4, "first-found", 6, "2001:db8::5 on eth0 (device)", nil},
		{"unknown version is the newest", incident4.at("nightly"), "first-found", 4, "192.168.1.5 on eth0 (device)",
			nil},
		{"unanchored: lo in a name",
			Node{Version: "v3.20.0", Interfaces: []Interface{nic(2, "slow0", "device", "10.1.1.1/24")}},
			"first-found", 4, "", errNoAddress},
		{"anchored", Node{Version: "v3.26.1", Interfaces: []Interface{nic(2, "slow0", "device", "10.1.1.1/24")}},
			"first-found", 4, "10.1.1.1 on slow0 (device)", nil},
		{"unanchored in v3.23.3", lo.at("v3.23.3"), "first-found", 4, "", errNoAddress},
		{"anchored from v3.23.4", lo.at("v3.23.4"), "first-found", 4, "10.1.1.1 on slow0 (device)", nil},
		{"unanchored in v3.24.2", lo.at("v3.24.2"), "first-found", 4, "", errNoAddress},
		{"anchored from v3.24.3", lo.at("v3.24.3"), "first-found", 4, "10.1.1.1 on slow0 (device)", nil},
		{"vxlan.calico in v3.23.4", vx.at("v3.23.4"), "first-found", 4, "10.244.1.0 on vxlan.calico (vxlan)", nil},
		{"vxlan.calico from v3.23.5", vx.at("v3.23.5"), "first-found", 4, "10.1.1.1 on eth0 (device)", nil},
		{"vxlan.calico in v3.24.3", vx.at("v3.24.3"), "first-found", 4, "10.244.1.0 on vxlan.calico (vxlan)", nil},
		{"vxlan.calico from v3.24.4", vx.at("v3.24.4"), "first-found", 4, "10.1.1.1 on eth0 (device)", nil},
		{"nodelocaldns from v3.24.6", local.at("v3.24.6"), "first-found", 4, "10.1.1.1 on eth0 (device)", nil},
		{"nodelocaldns in v3.24.5", local.at("v3.24.5"), "first-found", 4, "10.9.9.9 on nodelocaldns (dummy)", nil},
		{"the kernel's order, not its numbers", hashed, "first-found", 4, "10.1.1.1 on eth0 (device)", nil},
		{"no such method", incident3, "firstfound", 4, "", ErrMethod},
		{"bad expression", incident3, "interface=(", 4, "", errNoAddress},
		{"bad cidr", incident3, "cidr=10.0.0.0", 4, "", errNoAddress},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.node.Detect(c.method, c.family)
			if !errors.Is(err, c.err) || err == nil && got.String() != c.want {
				t.Errorf("got %v, %v, want %s, %v", got, err, c.want, c.err)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	for version, want := range map[string][3]bool{ // cidr, kubernetes-internal-ip, looks again
		"v3.15.1": {false, false, false}, "3.16": {true, false, true}, "v3.22.0-0.dev": {true, true, true},
		"master": {true, true, true},
	} {
		got := [3]bool{Knows(version, "cidr=10.0.0.0/8"), Knows(version, "kubernetes-internal-ip"), Redetects(version)}
		if got != want {
			t.Errorf("%s: %v, want %v", version, got, want)
		}
	}
}
