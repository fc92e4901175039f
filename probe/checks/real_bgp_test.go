//go:build e2e

package checks

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// meshOf is a BIRD configuration in confd's manner, for one address and its peers.
func meshOf(own string, peers ...string) string {
	text := `
router id ` + own + `;
listen bgp address ` + own + `;
protocol kernel kernel1 { learn; persist; scan time 2; import all; export all; graceful restart; merge paths on; }
protocol device device1 { scan time 2; }
protocol direct direct1 { interface "eth0"; }
template bgp bgp_template { local as 64512; multihop; gateway recursive; import all; export all; source address ` + own + `; graceful restart; connect delay time 1; connect retry time 1; error wait time 1,2; }
`
	for _, p := range peers {
		text += "protocol bgp Mesh_" + string(bytes.ReplaceAll([]byte(p), []byte("."), []byte("_"))) + " from bgp_template { neighbor " + p + " as 64512; }\n"
	}
	return text
}

// birdIn starts a BIRD 1.6 in this network namespace, its socket and configuration
// below a node's root, as calico-node's run script does.
func birdIn(t *testing.T, h *probe.Host, config string, args ...string) *exec.Cmd {
	t.Helper()
	file := filepath.Join(h.Root, "etc/calico/confd/config/bird.cfg")
	for _, dir := range []string{filepath.Dir(file), filepath.Join(h.Root, "run/calico")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("../../.cache/bird/usr/sbin/bird", append([]string{"-f", "-s", filepath.Join(h.Root, "run/calico/bird.ctl"), "-c", file}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the test may have done so
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("BIRD said:\n%s", &out)
		}
	})
	return cmd
}

// established waits until a node's BIRD has a session with the peer.
func established(t *testing.T, h *probe.Host, peer string) {
	t.Helper()
	eventually(t, func() bool {
		return slices.ContainsFunc(run(t, BGPSession, h, backend("bird"), self("127.0.0.1")), func(r probe.Result) bool { return r.Target == peer && r.Status == probe.OK })
	})
}

// TestRealGracefulRestart starts a BIRD as calico-node does, with one peer that
// lives and one that is gone: the dead one must be named as what holds back the
// routes of the other.
func TestRealGracefulRestart(t *testing.T) {
	if !nstest.Enter(t, furniture) {
		return
	}
	const socket = "/run/calico/bird.ctl"
	far, h := node(t, map[string]string{"run/calico/x": ""}), node(t, map[string]string{"run/calico/x": ""})
	birdIn(t, far, meshOf("127.0.0.2", "127.0.0.1")+"protocol static static1 { route 10.244.99.0/26 blackhole; }\n")
	dead := birdIn(t, h, meshOf("127.0.0.1", "127.0.0.2", "127.0.0.3"), "-R")
	established(t, h, "127.0.0.2")
	ask := func() []probe.Result { return run(t, BGPSession, h, backend("bird"), self("127.0.0.1")) }
	r := want(t, ask(), socket, probe.Warn, "graceful restart: no BGP route enters the kernel for up to 2", "unless these come up: 127.0.0.3")
	if left, ok := r.Facts.Num(FactWaitLeft); !ok || left < 1 || r.Facts.Str(FactKernelState) != "wait" {
		t.Errorf("%+v", r.Facts)
	}
	kill(t, dead)
	birdIn(t, h, meshOf("127.0.0.1", "127.0.0.2"), "-R") // without the dead peer nothing holds routes back
	established(t, h, "127.0.0.2")
	eventually(t, func() bool {
		return slices.ContainsFunc(ask(), func(r probe.Result) bool { return r.Target == socket && r.Status == probe.OK })
	})
	if out, err := exec.Command("../../.cache/bird/usr/sbin/birdc", "-s", filepath.Join(h.Root, socket), "disable", "kernel1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want(t, ask(), socket, probe.Fail, "1 of 1 peers established, and BIRD writes no routes into the kernel: its kernel protocol is down")
}

// TestRealBirdConfig takes the configuration from under a BIRD, and the BIRD from
// beside confd.
func TestRealBirdConfig(t *testing.T) {
	if !nstest.Enter(t, furniture) {
		return
	}
	h := node(t, map[string]string{"run/calico/x": ""})
	h.Proc = "/proc"
	file := filepath.Join(h.Root, "etc/calico/confd/config/bird.cfg")
	cmd := birdIn(t, h, meshOf("127.0.0.1", "127.0.0.2", "127.0.0.3"), "-R")
	ask := func() []probe.Result { return run(t, BirdConfig, h, backend("bird"), self("127.0.0.1")) }
	eventually(t, func() bool {
		return slices.ContainsFunc(ask(), func(r probe.Result) bool { return r.Status == probe.OK })
	})
	want(t, ask(), file, probe.OK, "router ID 127.0.0.1, 2 BGP peers")
	if err := os.WriteFile(file, []byte(meshOf("127.0.0.1", "127.0.0.2")), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, ask(), file, probe.Info, "1 BGP peers", "about to be loaded")
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	want(t, ask(), file, probe.Fail, "names no protocol")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	want(t, ask(), file, probe.Fail, "the file is not there")
	kill(t, cmd)
	want(t, ask(), "", probe.Fail, "neither BIRD nor confd runs")
	confd := exec.Command("/bin/sh", "-c", "read x") // a process of that name is all of confd that can be had without Calico
	confd.Args[0] = "confd"
	if _, err := confd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := confd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = confd.Process.Kill()
		_ = confd.Wait()
	}()
	want(t, ask(), "/etc/calico/confd/config/bird.cfg", probe.Fail, "bird does not run while confd does", "not there")
}

// TestRealBGPExpected takes a peer out of a BIRD's configuration that the API
// still asks for.
func TestRealBGPExpected(t *testing.T) {
	if !nstest.Enter(t, furniture) {
		return
	}
	h := node(t, map[string]string{"run/calico/x": ""})
	b, c := session("mesh", "b", "127.0.0.2", 179), session("mesh", "c", "127.0.0.3", 179)
	ask := func() []probe.Result { return run(t, BGPExpected, h, backend("bird"), self("127.0.0.1"), b, c) }
	cmd := birdIn(t, h, meshOf("127.0.0.1", "127.0.0.2", "127.0.0.3"))
	eventually(t, func() bool { return ask()[0].Status == probe.OK })
	want(t, ask(), "IPv4", probe.OK, "all 2 peers that the API expects: 2 mesh")
	kill(t, cmd)
	birdIn(t, h, meshOf("127.0.0.1", "127.0.0.2", "127.0.0.9"))
	eventually(t, func() bool { return ask()[0].Status == probe.Fail })
	want(t, ask(), "IPv4", probe.Fail, "BIRD lacks 1 of 2 peers that the API expects: c 127.0.0.3; BIRD has 1 that the API does not know: Mesh_127_0_0_9")
}
