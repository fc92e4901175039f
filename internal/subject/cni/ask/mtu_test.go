package ask

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
)

// TestMTUJudged covers the tunnels that the test machine's kernel cannot create. TestRealMTU covers VXLAN, and reads
// the MTUs from a kernel.
func TestMTUJudged(t *testing.T) {
	t.Parallel()
	ipip := leg{"tunl0", 1480, "IPIP", 20, "eth0", 1500}
	wg := leg{"wireguard.cali", 1440, "WireGuard", 60, "eth0", 1500}
	plain := leg{out: "eth0", outMTU: 1500}
	wide := ipip
	wide.mtu = 1500
	for name, c := range map[string]struct {
		legs    []leg
		pods    map[int]int
		setting int
		want    probe.Status
		saw     string
	}{
		"IPIP": {[]leg{ipip}, map[int]int{1480: 3}, 1480, probe.OK,
			"new pods get MTU 1480 (file), and tunl0 allows 1480"},
		"no setting":     {[]leg{ipip}, map[int]int{1480: 3}, 0, probe.OK, "pods have MTU 1480"},
		"an old default": {[]leg{ipip}, map[int]int{1440: 3}, 1440, probe.OK, "tunl0 allows 1480"},
		"the smallest":   {[]leg{ipip, wg}, map[int]int{1440: 1}, 1440, probe.OK, "wireguard.cali allows 1440"},
		"too large":      {[]leg{ipip, wg}, nil, 1480, probe.Warn, "wireguard.cali allows at most 1440"},
		"narrow tunnel": {[]leg{{"tunl0", 1410, "IPIP", 20, "eth0", 1500}}, nil, 1440, probe.Warn,
			"tunl0 allows at most 1410"},
		"does not fit": {[]leg{wide}, nil, 1500, probe.Fail,
			"new pods get MTU 1500 (file) and tunl0 accepts 1500: with 20 bytes of IPIP, packets exceed the MTU of eth0, 1500"},
		"host's own": {[]leg{wide}, nil, 1480, probe.Info, "pods send less"},
		"older pods": {[]leg{wg}, map[int]int{1440: 2, 1480: 5}, 1440, probe.Warn,
			"5 pod interfaces have an older MTU of up to 1480"},
		"smaller pods": {[]leg{ipip}, map[int]int{1410: 2}, 1480, probe.OK, "allows 1480"},
		"wasteful":     {[]leg{{out: "bond0", outMTU: 9000}}, nil, 1460, probe.Info, "9000 would fit through bond0"},
		"plain":        {[]leg{plain}, map[int]int{1500: 1}, 1500, probe.OK, "eth0 allows 1500"},
	} {
		got := judgeMTU(c.legs, c.pods, c.setting, "file")
		t.Run(name, func(t *testing.T) { checktest.Want(t, []probe.Result{got}, "", c.want, c.saw) })
	}
}

func TestPodMTU(t *testing.T) {
	t.Parallel()
	for want, files := range map[int]map[string]string{
		1440: {"etc/cni/net.d/10-calico.conflist": `{"plugins":[{"type":"calico","mtu":1440}]}`,
			"var/lib/calico/mtu": "1450"},
		1450: {"etc/cni/net.d/10-calico.conflist": `{"plugins":[{"type":"calico","mtu":"__CNI_MTU__"},{"type":"portmap","mtu":9}]}`, "var/lib/calico/mtu": "1450\n"},
		1430: {"etc/cni/net.d/05-other.conf": `{"type":"bridge","mtu":1500}`,
			"etc/cni/net.d/10-calico.conf": `{"type":"calico","mtu":1430}`},
		0: {"etc/cni/net.d/10-calico.conflist": `{"plugins":[{"type":"calico"}]}`, "var/lib/calico/mtu": "garbage"},
	} {
		if got, _ := podMTU(checktest.Node(t, files)); got != want {
			t.Errorf("%v: %d", files, got)
		}
	}
	if got, _ := podMTU(&probe.Host{Root: "/", Only: []string{"/run"}}); got != 0 {
		t.Errorf("not visible: %d", got)
	}
}

func FuzzMTUIn(f *testing.F) {
	f.Add([]byte(`{"plugins":[{"type":"calico","mtu":1440}]}`))
	f.Add([]byte(`{"type":"calico","mtu":1e99}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if n := mtuIn(text); n < 0 || n > 65535 {
			t.Error(n)
		}
	})
}
