package ask

import (
	"net/netip"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

func TestNodeSysctl(t *testing.T) {
	t.Parallel()
	const v4, v6 = "net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"
	on := checktest.Node(t, map[string]string{"proc/sys/" + v4: "1\n", "proc/sys/" + v6: "1\n"})
	off := checktest.Node(t, map[string]string{"proc/sys/" + v4: "0\n", "proc/sys/" + v6: "0\n"})
	both := []probe.Target{checktest.Self("10.0.0.1"), checktest.Self("fd00::1")}
	checktest.Want(t, checktest.Run(t, nodeSysctlCheck, on, both...), v4, probe.OK, "1")
	checktest.Want(t, checktest.Run(t, nodeSysctlCheck, on, both...), v6, probe.OK, "1")
	checktest.Want(t, checktest.Run(t, nodeSysctlCheck, off, both...), v4, probe.Fail, "does not forward")
	checktest.Want(t, checktest.Run(t, nodeSysctlCheck, off, both...), v6, probe.Fail, "does not forward")
	checktest.Want(t, checktest.Run(t, nodeSysctlCheck, off, both[0]), v6, probe.Skip, "no address of that family")
	checktest.Want(t, checktest.Run(t, nodeSysctlCheck, checktest.Node(t, map[string]string{"proc/x": ""})), v4,
		probe.Skip,
		"no such setting")
}

func TestReversePath(t *testing.T) {
	t.Parallel()
	const dropped = "TcpExt: SyncookiesSent IPReversePathFilter TCPTimeouts\nTcpExt: 0 12 3\nIpExt: InNoRoutes\nIpExt: 0\n"
	for name, c := range map[string]struct {
		all, tunnel, netstat, version string
		status                        probe.Status
		saw                           string
	}{
		"off":               {"0", "0", dropped, "v3.32.1", probe.OK, "all 0, cali* 1, vxlan.calico 0"},
		"strict":            {"1", "0", "", "v3.32.1", probe.OK, "all 1, cali* 1, vxlan.calico 1"},
		"strict and drops":  {"0", "1", dropped, "v3.32.1", probe.Info, "12 packets"},
		"loose":             {"2", "1", dropped, "v3.12.0", probe.OK, "vxlan.calico 2"},
		"loose in old days": {"2", "0", "", "v3.11.3", probe.Warn, "does not start"},
		"loose, no version": {"2", "0", "", "", probe.OK, "all 2"},
	} {
		h := checktest.Node(t, map[string]string{
			"proc/sys/net/ipv4/conf/all/rp_filter":             c.all + "\n",
			"proc/sys/net/ipv4/conf/vxlan.calico/rp_filter":    c.tunnel + "\n",
			"proc/sys/net/ipv4/conf/cali12345678901/rp_filter": "1\n",
			"proc/sys/net/ipv4/conf/docker0/rp_filter":         "1\n", "proc/net/netstat": c.netstat,
		})
		t.Run(name, func(t *testing.T) {
			checktest.Want(t, checktest.Run(t, nodeSysctlCheck, h, probe.Target{Kind: probe.KindCalico, Name: c.version}),
				"rp_filter",
				c.status, c.saw)
		})
	}
	checktest.Want(t, checktest.Run(t, nodeSysctlCheck, checktest.Node(t, nil)), "rp_filter", probe.Skip,
		"no such setting")
}

func TestNodeNeighbours(t *testing.T) {
	t.Parallel()
	h := checktest.Node(t, map[string]string{"proc/sys/net/ipv4/neigh/default/gc_thresh3": "1024\n"})
	for entries, s := range map[int]probe.Status{3: probe.OK, 819: probe.OK, 820: probe.Warn, 1024: probe.Fail} {
		if r := judgeTable(h, 4, entries); r.Status != s {
			t.Errorf("%d entries: %+v", entries, r)
		}
	}
	if s := stateOf([]kernel.Neighbour{{Addr: netip.MustParseAddr("10.0.0.2"), State: "failed"}},
		netip.MustParseAddr("10.0.0.2")); s != "failed" {
		t.Error(s)
	}
	if r := judgeTable(h, 6, 3); r.Status != probe.Info {
		t.Errorf("without a limit: %+v", r)
	}
}

// TestJudgeEntry expects a report of entries for other nodes that no answer on the link creates, and no normal ones.
func TestJudgeEntry(t *testing.T) {
	t.Parallel()
	const own, other = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
	for _, c := range []struct {
		mac, state string
		is         bool
		status     probe.Status
	}{
		{other, "reachable", false, ""}, {other, "stale", false, ""}, {other, "permanent", true, probe.Info},
		{own, "reachable", true, probe.Fail}, {own, "permanent", true, probe.Fail},
	} {
		r, is := judgeEntry(kernel.Neighbour{Device: "eth0", MAC: c.mac, State: c.state}, own)
		if is != c.is || r.Status != c.status || is && r.Facts[link.FactOwnMAC] != (c.mac == own) {
			t.Errorf("%s %s: %v %+v", c.mac, c.state, is, r)
		}
	}
}
