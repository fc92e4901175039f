//go:build e2e

package ask

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealGracefulRestart starts BIRD as calico-node does, with one live and one dead peer. The result must name the
// dead peer as the reason why BIRD withholds the routes of the live one.
func TestRealGracefulRestart(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture) {
		return
	}
	const socket = "/run/calico/bird.ctl"
	far, h := checktest.Node(t, map[string]string{"run/calico/x": ""}),
		checktest.Node(t, map[string]string{"run/calico/x": ""})
	checktest.BirdIn(t, far, checktest.MeshOf("127.0.0.2", "127.0.0.1")+"protocol static static1 { route 10.244.99.0/26 blackhole; }\n")
	dead := checktest.BirdIn(t, h, checktest.MeshOf("127.0.0.1", "127.0.0.2", "127.0.0.3"), "-R")
	checktest.Established(t, bgpSessionCheck, h, "127.0.0.2")
	ask := func() []probe.Result {
		return checktest.Run(t, bgpSessionCheck, h, checktest.Backend("bird"), checktest.Self("127.0.0.1"))
	}
	r := checktest.Want(t, ask(), socket, probe.Warn, "graceful restart: BIRD writes no BGP routes into the kernel for up to 2",
		"unless these peers come up: 127.0.0.3")
	if left, ok := r.Facts.Num(bgp.FactWaitLeft); !ok || left < 1 || r.Facts.Str(bgp.FactKernelState) != "wait" {
		t.Errorf("%+v", r.Facts)
	}
	checktest.Kill(t, dead)
	checktest.BirdIn(t, h, checktest.MeshOf("127.0.0.1", "127.0.0.2"),
		"-R") // without the dead peer, BIRD withholds no routes
	checktest.Established(t, bgpSessionCheck, h, "127.0.0.2")
	checktest.Eventually(t, func() bool {
		return slices.ContainsFunc(ask(),
			func(r probe.Result) bool { return r.Target == socket && r.Status == probe.OK })
	})
	if out, err := exec.Command(checktest.Part(t, "bird/usr/sbin/birdc"), "-s", filepath.Join(h.Root, socket), "disable",
		"kernel1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	checktest.Want(t, ask(), socket, probe.Fail,
		"1 of 1 peers established, but BIRD writes no routes into the kernel: its kernel protocol is down")
}

// TestRealGracefulRestart2 does the same with BIRD 2, which reports the restart for each channel.
func TestRealGracefulRestart2(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture) {
		return
	}
	h := checktest.Node(t, map[string]string{"run/calico/x": ""})
	checktest.StartBIRD(t, "bird2", h, `
router id 10.0.0.1;
protocol kernel kernel1 { ipv4 { import all; export all; }; learn; persist; graceful restart; }
protocol device device1 { }
template bgp bgp_template { local 127.0.0.1 as 64512; strict bind on; multihop; ipv4 { import all; export all; }; graceful restart; connect retry time 1; error wait time 1,2; }
protocol bgp Mesh_127_0_0_3 from bgp_template { neighbor 127.0.0.3 as 64512; }
`, "-R")
	ask := func() []probe.Result {
		return checktest.Run(t, bgpSessionCheck, h, checktest.Backend("bird"), checktest.Self("127.0.0.1"))
	}
	checktest.Eventually(t, func() bool {
		return slices.ContainsFunc(ask(), func(r probe.Result) bool { return r.Target == "127.0.0.3" })
	})
	checktest.Want(t, ask(), "/run/calico/bird.ctl", probe.Warn, "graceful restart", "unless these peers come up: 127.0.0.3")
}

// TestRealBirdConfig deletes the configuration of a running BIRD, and then stops BIRD while confd keeps running.
func TestRealBirdConfig(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture) {
		return
	}
	h := checktest.Node(t, map[string]string{"run/calico/x": ""})
	h.Proc = "/proc"
	file := filepath.Join(h.Root, "etc/calico/confd/config/bird.cfg")
	cmd := checktest.BirdIn(t, h, checktest.MeshOf("127.0.0.1", "127.0.0.2", "127.0.0.3"), "-R")
	ask := func() []probe.Result {
		return checktest.Run(t, birdConfigCheck, h, checktest.Backend("bird"), checktest.Self("127.0.0.1"))
	}
	checktest.Eventually(t, func() bool { // the check judges only the file until BIRD answers
		return slices.ContainsFunc(checktest.Run(t, birdSocketCheck, h, checktest.Backend("bird")),
			func(r probe.Result) bool { return r.Status == probe.OK })
	})
	checktest.Want(t, ask(), file, probe.OK, "router ID 127.0.0.1, 2 BGP peers")
	must.Do(t, os.WriteFile(file, []byte(checktest.MeshOf("127.0.0.1", "127.0.0.2")), 0o600))
	checktest.Want(t, ask(), file, probe.Info, "1 BGP peers", "not loaded yet")
	must.Do(t, os.Truncate(file, 0))
	checktest.Want(t, ask(), file, probe.Fail, "defines no protocol")
	must.Do(t, os.Remove(file))
	checktest.Want(t, ask(), file, probe.Fail, "the file does not exist")
	checktest.Kill(t, cmd)
	checktest.Want(t, ask(), "", probe.Fail, "neither BIRD nor confd runs")
	// stands in for confd, which needs Calico
	confd := exec.Command(checktest.BashAs(t, "confd"), "-c", "read x")
	must.Get(confd.StdinPipe())(t)
	must.Do(t, confd.Start())
	defer func() {
		_ = confd.Process.Kill()
		_ = confd.Wait()
	}()
	checktest.Want(t, ask(), "/etc/calico/confd/config/bird.cfg", probe.Fail, "bird is not running but confd is",
		"does not exist")
}

// TestRealBGPExpected removes a peer from BIRD's configuration that the API still configures.
func TestRealBGPExpected(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture) {
		return
	}
	h := checktest.Node(t, map[string]string{"run/calico/x": ""})
	b, c := checktest.Session("mesh", "b", "127.0.0.2", 179), checktest.Session("mesh", "c", "127.0.0.3", 179)
	ask := func() []probe.Result {
		return checktest.Run(t, bgpExpectedCheck, h, checktest.Backend("bird"), checktest.Self("127.0.0.1"), b, c)
	}
	cmd := checktest.BirdIn(t, h, checktest.MeshOf("127.0.0.1", "127.0.0.2", "127.0.0.3"))
	checktest.Eventually(t, func() bool { return ask()[0].Status == probe.OK })
	checktest.Want(t, ask(), "IPv4", probe.OK, "all 2 peers that the API configures: 2 mesh")
	checktest.Kill(t, cmd)
	checktest.BirdIn(t, h, checktest.MeshOf("127.0.0.1", "127.0.0.2", "127.0.0.9"))
	checktest.Eventually(t, func() bool { return ask()[0].Status == probe.Fail })
	checktest.Want(t, ask(), "IPv4", probe.Fail,
		"BIRD lacks 1 of 2 peers that the API configures: c 127.0.0.3; BIRD has 1 that the API does not configure: Mesh_127_0_0_9")
}
