//go:build e2e

package checktest

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// Do runs system programs in the test's namespaces.
func Do(t *testing.T, commands ...string) {
	t.Helper()
	for _, line := range commands {
		args := strings.Fields(line)
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
}

// PlaneFurniture sets up a node with Felix's VXLAN devices, and two other nodes.
const PlaneFurniture = Furniture + `
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

func Pool(cidr, ipip, vxlan string) probe.Target {
	return probe.Target{Kind: probe.KindPool, Name: cidr,
		Attrs: map[string]string{probe.AttrIPIP: ipip, probe.AttrVXLAN: vxlan}}
}

func FelixWith(settings ...string) probe.Target {
	t := probe.Target{Kind: probe.KindFelix, Name: "felix", Attrs: map[string]string{}}
	for i := 0; i < len(settings); i += 2 {
		t.Attrs[settings[i]] = settings[i+1]
	}
	return t
}

func TunnelEnd(node, addr, device, outer, mac string) probe.Target {
	t := At(probe.KindTunnel, node, addr)
	t.Attrs = map[string]string{probe.AttrDevice: device, probe.AttrOuter: outer, probe.AttrMAC: mac}
	return t
}

func ownEnd(t probe.Target) probe.Target {
	t.Attrs[probe.AttrOwn] = "true"
	return t
}

// VXLANPlan returns the cluster's data about the node that PlaneFurniture sets up.
func VXLANPlan() []probe.Target {
	return []probe.Target{
		FelixWith(), Pool("10.244.0.0/16", "Never", "Always"), Pool("fd00:244::/48", "Never", "CrossSubnet"),
		At(probe.KindSelf, "a", "10.9.0.1"), At(probe.KindSelf, "a", "fd09::1"), At(probe.KindNode, "b", "10.9.0.2"),
		ownEnd(TunnelEnd("a", "10.244.0.1", "vxlan.calico", "10.9.0.1", "66:00:00:00:00:01")),
		TunnelEnd("b", "10.244.1.0", "vxlan.calico", "10.9.0.2", "66:00:00:00:00:02"),
		TunnelEnd("c", "10.244.2.0", "vxlan.calico", "10.77.0.3", ""), // most clusters do not store a MAC address
		ownEnd(TunnelEnd("a", "fd00:244::1", "vxlan-v6.calico", "fd09::1", "")),
		TunnelEnd("b", "fd00:244:0:1::", "vxlan-v6.calico", "fd09::2", ""),
	}
}

// WithoutNetAdmin restarts the test without the capability, in the environment that the test has set up. It reports
// whether the current run is the restarted one.
func WithoutNetAdmin(t *testing.T) bool {
	t.Helper()
	if os.Getenv("WITHOUT_NET_ADMIN") != "" {
		return true
	}
	if !nstest.Enter(t, Furniture+"ip link add cali0123456789a type veth peer name pod1\niptables-legacy -N cali-FORWARD\n") {
		return false
	}
	self := must.Get(os.Executable())(t)
	child := exec.Command("setpriv", "--bounding-set", "-net_admin", self, "-test.v", "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), "WITHOUT_NET_ADMIN=1")
	if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}
