//go:build e2e

package ask

import (
	"os"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealMTU sets MTUs that do not match along a pod's path.
func TestRealMTU(t *testing.T) {
	if !nstest.Enter(t, checktest.PlaneFurniture+`
ip link add cali0123456789a mtu 1450 type veth peer name pod1
ip link add cali0123456789b mtu 1450 type veth peer name pod2
`) {
		return
	}
	conf := func(mtu string) string {
		return `{"name":"k8s-pod-network","plugins":[{"type":"calico","mtu":` + mtu + `},{"type":"portmap"}]}`
	}
	h := checktest.Node(t, map[string]string{"etc/cni/net.d/10-calico.conflist": conf("0"), "var/lib/calico/mtu": "1450\n"})
	ask := func(more ...probe.Target) []probe.Result {
		return checktest.Run(t, cniMTUCheck, h, append(more, checktest.VXLANPlan()...)...)
	}
	set := func(name, text string) {
		t.Helper()
		must.Do(t, os.WriteFile(h.Root+"/"+name, []byte(text), 0o644))
	}
	checktest.Want(t, ask(), "", probe.OK, "new pods get MTU 1450 (/var/lib/calico/mtu), and vxlan.calico allows 1450")
	checktest.Want(t, checktest.Run(t, cniMTUCheck, h, checktest.Backend("bird")), "", probe.Skip,
		"no address is registered")

	checktest.Do(t, "ip link set cali0123456789b mtu 1480")
	checktest.Want(t, ask(), "", probe.Warn,
		"1 pod interfaces have an older MTU of up to 1480, but vxlan.calico allows at most 1450")
	set("var/lib/calico/mtu", "1440")
	checktest.Do(t, "ip link set cali0123456789b mtu 1450")
	checktest.Want(t, ask(), "", probe.Info, "2 pod interfaces have an older MTU of up to 1450, which fits")
	set("etc/cni/net.d/10-calico.conflist", conf("1500"))
	checktest.Want(t, ask(), "", probe.Warn, "new pods get MTU 1500 (/etc/cni/net.d/10-calico.conflist)",
		"depend on path MTU discovery")
	// The kernel rejects such an MTU for the present MTU below it, but that one may shrink later.
	checktest.Do(t, "ip link set eth0 mtu 9000", "ip link set vxlan.calico mtu 1500", "ip link set eth0 mtu 1500")
	checktest.Want(t, ask(), "", probe.Fail, "new pods get MTU 1500",
		"vxlan.calico accepts 1500: with 50 bytes of VXLAN, packets exceed the MTU of eth0, 1500")
	set("etc/cni/net.d/10-calico.conflist", conf("1450"))
	checktest.Want(t, ask(), "", probe.Info, "vxlan.calico accepts 1500", "pods send less")
	pools := []string{probe.KindPool}
	var unpooled []probe.Target // as if the pools could not be read
	for _, target := range checktest.VXLANPlan() {
		if target.Kind != probe.KindPool {
			unpooled = append(unpooled, target)
		}
	}
	set("etc/cni/net.d/10-calico.conflist", conf("1500"))
	checktest.Want(t, checktest.Lacking(t, cniMTUCheck, h, "forbidden", pools, unpooled...), "", probe.Unknown,
		"vxlan.calico accepts 1500: with 50 bytes of VXLAN, packets exceed the MTU of eth0, 1500; the tunnels of Calico's pools are unknown: forbidden")
	checktest.Want(t, checktest.Lacking(t, cniMTUCheck, h, probe.GapEtcd, pools, unpooled...), "", probe.Skip,
		"exceed the MTU")
	set("etc/cni/net.d/10-calico.conflist", conf("1450"))
	checktest.Do(t, "ip link set vxlan.calico mtu 1450", "ip link set eth0 mtu 1400")
	r := checktest.Want(t, ask(), "", probe.Fail, "vxlan.calico accepts 1450", "exceed the MTU of eth0, 1400")
	if room, _ := r.Facts.Num(cni.FactRoom); room != 1350 {
		t.Errorf("%+v", r.Facts)
	}
	checktest.Do(t, "ip link set eth0 mtu 9000", "ip link set vxlan.calico mtu 8950")
	checktest.Want(t, ask(), "", probe.Info, "new pods get MTU 1450", "8950 would fit through vxlan.calico")

	// CrossSubnet encapsulates only towards another subnet.
	checktest.Do(t, "ip link set vxlan.calico mtu 1500", "ip link set eth0 mtu 1500")
	set("etc/cni/net.d/10-calico.conflist", conf("1500"))
	plan := []probe.Target{checktest.FelixWith(), checktest.Pool("10.244.0.0/16", "Never", "CrossSubnet"),
		checktest.At(probe.KindSelf, "a", "10.9.0.1"), checktest.TunnelEnd("b", "10.244.1.0", "vxlan.calico", "10.9.0.2", "")}
	checktest.Want(t, checktest.Run(t, cniMTUCheck, h, plan...), "", probe.OK, "eth0 allows 1500")
	checktest.Want(t, checktest.Run(t, cniMTUCheck, h, append(plan,
		checktest.TunnelEnd("c", "10.244.2.0", "vxlan.calico", "10.77.0.3", ""))...), "",
		probe.Fail, "exceed the MTU")

	checktest.Do(t, "ip link set eth0 mtu 1460")
	checktest.Want(t, checktest.Run(t, cniMTUCheck, h, plan...), "", probe.Warn, "eth0 allows at most 1460")
	checktest.Do(t, "ip link del cali0123456789a", "ip link del cali0123456789b")
	checktest.Want(t, checktest.Run(t, cniMTUCheck, checktest.Node(t, map[string]string{"x": ""}), plan...), "",
		probe.Skip,
		"no cali* interface")
}
