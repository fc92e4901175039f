package ask

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
	"github.com/calico-probe/calico-probe/probe/bird/birdtest"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/node"
)

func TestBird(t *testing.T) {
	t.Parallel()
	h := checktest.Node(t, map[string]string{"run/calico/ipam.lock": ""})
	birdtest.Serve(t, filepath.Join(h.Root, "run/calico/bird.ctl"), "../../../../probe/bird/testdata/bird-1.6.8-restarting.txt")
	v4, v6 := "/run/calico/bird.ctl", "/run/calico/bird6.ctl"
	got := checktest.Run(t, birdSocketCheck, h, checktest.Backend("bird"), checktest.Self("10.0.0.1"),
		checktest.Self("fd00::1"))
	checktest.Want(t, got, v4, probe.OK, "BIRD 1.6.8 answers, router ID 10.0.0.1")
	checktest.Want(t, got, v6, probe.Fail, "no such socket")
	checktest.Want(t, checktest.Run(t, birdSocketCheck, h, checktest.Backend("bird"), checktest.Self("10.0.0.1")), v6,
		probe.Skip, "no IPv6 address")
	checktest.Want(t, checktest.Run(t, birdSocketCheck, h), v6, probe.Skip, "BIRD only for IPv4")

	got = checktest.Run(t, bgpSessionCheck, h, checktest.Backend("bird"), checktest.Self("10.0.0.1"))
	r := checktest.Want(t, got, "127.0.0.2", probe.OK, "Established", "1 routes imported")
	if r.Facts.Str(bgp.FactPeer) != "127.0.0.2" || r.Facts.Str(probe.FactSource) != "127.0.0.1" {
		t.Errorf("%+v", r.Facts)
	}
	r = checktest.Want(t, got, "127.0.0.3", probe.Fail, "Connection refused")
	if r.Facts.Str(bgp.FactLastError) != "Socket: Connection refused" || len(r.Lines) == 0 {
		t.Errorf("%+v", r)
	}
	checktest.Want(t, got, "127.0.0.4", probe.Fail, "Passive", "waits for the peer to connect")
	r = checktest.Want(t, got, v4, probe.Warn, "graceful restart: BIRD writes no BGP routes into the kernel for up to 2",
		"s, unless these peers come up: 127.0.0.3, 127.0.0.4, 192.0.2.1")
	if left, ok := r.Facts.Num(bgp.FactWaitLeft); !ok || left < 200 || r.Facts.Str(bgp.FactKernelState) != "wait" ||
		len(r.Facts[bgp.FactBlockers].([]string)) != 3 {
		t.Errorf("%+v", r.Facts)
	}
	checktest.Want(t, got, v6, probe.Skip, "no IPv6 address")

	quiet := checktest.Session("mesh", "c", "127.0.0.3", 179)
	quiet.Node, quiet.Attrs[probe.AttrNode] = "c", "NotReady"
	got = checktest.Run(t, bgpSessionCheck, h, checktest.Backend("bird"), checktest.Self("10.0.0.1"), quiet,
		checktest.Session("global", "tor", "192.0.2.1", 179))
	checktest.Want(t, got, "c 127.0.0.3", probe.Warn, "the API reports c as NotReady")
	checktest.Want(t, got, "tor 192.0.2.1", probe.Fail, "unreachable")
}

func TestBird2(t *testing.T) {
	t.Parallel()
	h := checktest.Node(t, map[string]string{"run/bird/x": ""}) // the socket of a BIRD outside any container
	birdtest.Serve(t, filepath.Join(h.Root, "run/bird/bird.ctl"), "../../../../probe/bird/testdata/bird-2.0.12.txt")
	got := checktest.Run(t, bgpSessionCheck, h, checktest.Backend("bird"), checktest.Self("10.0.0.2"))
	checktest.Want(t, got, "127.0.0.1", probe.OK, "Established", "0 routes imported, 1 exported")
	checktest.Want(t, got, "/run/bird/bird.ctl", probe.Fail, "1 of 2 peers",
		"BIRD writes no routes into the kernel: it has no kernel protocol")
}

// TestJudgeAll covers states that no recording contains.
func TestJudgeAll(t *testing.T) {
	t.Parallel()
	peer := func(name, state string) bird.Protocol { return bird.Protocol{Name: name, Proto: "BGP", BGP: state} }
	kernel := func(state string) bird.Protocol { return bird.Protocol{Name: "kernel1", Proto: "Kernel", State: state} }
	for name, c := range map[string]struct {
		status    bird.Status
		protocols []bird.Protocol
		want      probe.Status
		saw       string
	}{
		"healthy": {bird.Status{}, []bird.Protocol{kernel("up"), peer("Mesh_10_0_0_2", "Established")}, probe.OK,
			"1 of 1"},
		"kernel down": {bird.Status{}, []bird.Protocol{kernel("down"), peer("Mesh_10_0_0_2", "Established")},
			probe.Fail, "its kernel protocol is down"},
		"one of two": {bird.Status{},
			[]bird.Protocol{kernel("up"), kernel("down"), peer("Mesh_10_0_0_2", "Established")}, probe.OK, "1 of 1"},
		"own BIRD": {bird.Status{}, []bird.Protocol{peer("uplink", "Established")}, probe.Warn,
			"it has no kernel protocol"},
		"nobody up": {bird.Status{}, []bird.Protocol{peer("Mesh_10_0_0_2", "Connect")}, probe.Info, "0 of 1"},
		"rows only": {bird.Status{Restarting: true, WaitLeft: 9 * time.Second},
			[]bird.Protocol{peer("Mesh_10_0_0_2", "Established"), peer("uplink", "Connect")},
			probe.Warn, "up to 9s, unless these peers come up: uplink"},
		"no end of routes": {bird.Status{Restarting: true},
			[]bird.Protocol{{Name: "Mesh_10_0_0_2", Proto: "BGP", BGP: "Established", Recovery: "pending"}},
			probe.Warn, "unless these peers have sent all their routes: Mesh_10_0_0_2"},
	} {
		up := 0
		for _, p := range c.protocols {
			if p.Established() {
				up++
			}
		}
		if r := judgeAll(c.status, c.protocols, 1, up); r.Status != c.want || !strings.Contains(r.Saw, c.saw) {
			t.Errorf("%s: %s %q", name, r.Status, r.Saw)
		}
	}
}

// TestHoldTimer expects the time until a session with a silent peer expires.
func TestHoldTimer(t *testing.T) {
	t.Parallel()
	r, _ := judgeSession(node.Daemons()[0], &probe.Pass{},
		bird.Protocol{Proto: "BGP", State: "up", BGP: "Established", Hold: 240 * time.Second, HoldLeft: time.Minute},
		bird.Status{})
	if left, _ := r.Facts.Num(bgp.FactHoldLeft); r.Status != probe.OK || left != 60 {
		t.Errorf("%+v", r)
	}
}

// TestSessionReason maps BIRD's texts to reasons, with the error texts of both C libraries.
func TestSessionReason(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Active Socket: Connection refused": "refused", "Connect Socket: Network unreachable": "net-unreachable",
		"Connect Socket: Network is unreachable": "net-unreachable",
		"Active Socket: Host is unreachable":     "host-unreachable",
		"Active Socket: No route to host":        "host-unreachable", "Active Socket: Operation timed out": "timeout",
		"Active Socket: Address not available":         "no-address",
		"Idle Socket: Cannot assign requested address": "no-address", "Idle Received: Bad peer AS": "bad-as",
		"Active Socket: Connection closed": "closed", "OpenSent BGP Error: Hold timer expired": "hold-expired",
		"Idle Error: Kernel MD5 auth failed": "password",
		"Idle Error: No listening socket":    "no-listener",
		"Idle Received: Connection rejected": "unknown-peer", "Connect": "", "Passive": "",
	} {
		if got := sessionReason(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	of := func(info, last string) probe.Facts {
		p := &probe.Pass{Targets: []probe.Target{{Kind: probe.KindSession, Name: "b", Node: "b",
			Addr: netip.MustParseAddr("10.0.0.2")}}}
		r, _ := judgeSession(node.Daemons()[0], p,
			bird.Protocol{Name: "Mesh_10_0_0_2", Proto: "BGP", State: "start", BGP: "Active", Info: info,
				LastError: last, Neighbor: netip.MustParseAddr("10.0.0.2")}, bird.Status{})
		return r.Facts
	}
	if f := of("Active Socket: Connection refused", ""); f.Str(probe.FactReason) != "refused" ||
		f.Str(probe.FactNode) != "b" {
		t.Errorf("%v", f)
	}
	if f := of("Active", "Received: Bad peer AS"); f.Str(probe.FactReason) != "bad-as" || f[bgp.FactHeard] != true {
		t.Errorf("%v", f)
	}
	if f := of("Active", "BGP Error: Bad peer AS"); f.Str(probe.FactReason) != "bad-as" || f[bgp.FactHeard] != nil {
		t.Errorf("%v", f)
	}
}
