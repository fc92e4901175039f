package checks

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

func TestNodeMemory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		available, vmstat string
		status            probe.Status
		saw               string
	}{
		"enough": {"8000000", "oom_kill 0\n", probe.OK, "8.2 of 16.4 GB"},
		"killed": {"8000000", "pgfault 1\noom_kill 3\n", probe.Info, "3 OOM kills"},
		"little": {"500000", "oom_kill 0\n", probe.Warn, "available"},
		"none":   {"90000", "oom_kill 12\n", probe.Fail, "12 OOM kills"},
		"old":    {"8000000", "", probe.OK, "available"},
	} {
		h := node(t, map[string]string{"proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: " + c.available + " kB\n", "proc/vmstat": c.vmstat})
		t.Run(name, func(t *testing.T) { want(t, run(t, NodeMemory, h), "", c.status, c.saw) })
	}
	h := node(t, map[string]string{"proc/meminfo": "MemTotal: 16000000 kB\n"})
	want(t, run(t, NodeMemory, h), "", probe.Unknown, "does not say")
}

// TestMemoryInside has the cgroup of calico-node's container in each version.
func TestMemoryInside(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cgroup, file, text string
		limit, max         string
		status             probe.Status
		saw                string
	}{
		"v2": {"0::/a\n", "a/memory.events", "low 0\noom 2\noom_kill 2\noom_group_kill 0\n", "a/memory.max",
			"100000000\n", probe.Warn,
			"2 OOM kills in its container since it started; the container kept running; it has a memory limit"},
		"v2, no limit": {"0::/a\n", "a/memory.events", "oom_kill 2\n", "a/memory.max", "max\n", probe.Warn,
			"kept running"},
		"v1": {"4:memory:/a\n", "memory/a/memory.oom_control",
			"oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", "memory/a/memory.limit_in_bytes", "30000000\n",
			probe.Warn, "kept running; it has a memory limit"},
		"v1, no limit": {"4:memory:/a\n", "memory/a/memory.oom_control", "oom_kill 1\n",
			"memory/a/memory.limit_in_bytes", "9223372036854771712\n", probe.Warn, "kept running"},
		"never":       {"0::/a\n", "a/memory.events", "oom_kill 0\n", "x", "", probe.OK, "no OOM kill"},
		"not visible": {"0::/a\n", "b/memory.events", "", "x", "", "", ""},
	} {
		files := map[string]string{"proc/1/comm": "systemd\n", "proc/9/cgroup": c.cgroup,
			"sys/fs/cgroup/" + c.file: c.text, "sys/fs/cgroup/" + c.limit: c.max,
			"proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n"}
		process(files, 9, 1, "calico-node", 1, "\t1", "calico-node", "-felix")
		got := run(t, NodeMemory, node(t, files))
		if c.status != "" {
			r := want(t, got, "calico-node memory", c.status, c.saw)
			if strings.Contains(name, "no limit") && strings.Contains(r.Saw, "limit") {
				t.Errorf("%s: %s", name, r.Saw)
			}
		} else if len(got) != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestNodeDisk(t *testing.T) {
	t.Parallel()
	for saw, c := range map[string]struct {
		disk   disk
		frozen bool
		status probe.Status
		name   string
	}{
		"5 % of":                             {disk{free: 5, freeInodes: 95}, false, probe.Warn, "/run"},
		"1 % of 8.0 MB":                      {disk{free: 1, freeInodes: 95, total: 8e6}, false, probe.Fail, "/run"},
		", 0 % of the inodes":                {disk{free: 90}, false, probe.Fail, "/run"},
		"11 % of":                            {disk{free: 11, freeInodes: 95}, false, probe.OK, "/run"},
		"61 % of 100.0 GB":                   {disk{free: 61, freeInodes: 95, total: 1e11}, false, probe.OK, "/"},
		"12 % of":                            {disk{free: 12, freeInodes: 95}, false, probe.Warn, "/"},
		"9 % of":                             {disk{free: 9.4, freeInodes: 95}, false, probe.Fail, "/"},
		"4 % of the inodes":                  {disk{free: 50, freeInodes: 4}, false, probe.Fail, "/"},
		"read-only: remounted by the kernel": {disk{free: 50, freeInodes: 50}, true, probe.Fail, "/"},
	} {
		if r := roomy(c.disk, c.name, c.frozen); r.Status != c.status || !strings.Contains(r.Saw, saw) {
			t.Errorf("%+v: %s %s", c.disk, r.Status, r.Saw)
		}
	}
	// The mount table of the node's first process, not the probe's own.
	h := node(t, map[string]string{"proc/1/mountinfo": "1 0 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 ro,errors=remount-ro\n2 1 8:2 / /var/lib rw - ext4 /dev/sdb1 rw\n"})
	if !readOnly(h, "/") || !readOnly(h, "/var") || readOnly(h, "/var/lib/kubelet") {
		t.Error("the mount table was misread")
	}
	if got := run(t, NodeDisk, h); len(got) == 0 || got[0].Target != "/" || got[0].Facts[FactReadOnly] != true {
		t.Errorf("%+v", got)
	}
}

func TestNodeConntrack(t *testing.T) {
	t.Parallel()
	for entries, s := range map[string]probe.Status{"100": probe.OK, "749": probe.OK, "750": probe.Warn,
		"950": probe.Warn, "1000": probe.Fail} {
		h := node(t, map[string]string{"proc/sys/net/netfilter/nf_conntrack_count": entries + "\n",
			"proc/sys/net/netfilter/nf_conntrack_max": "1000\n"})
		want(t, run(t, NodeConntrack, h), "", s, entries+" of 1000 entries")
	}
	// The kernel's counters in hexadecimal; they grow while the check waits for the second reading.
	const counters = "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error  expect_new expect_create expect_delete search_restart\n" +
		"00000064  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 %08x %08x 00000000 00000000  00000000 00000000 00000000 00000000\n"
	for name, c := range map[string]struct {
		failed, drop int
		raced        bool
	}{"a race": {7, 0, true}, "nothing": {4, 0, false}, "it is full": {7, 3, false}} {
		h := node(t, map[string]string{"proc/sys/net/netfilter/nf_conntrack_count": "100\n",
			"proc/sys/net/netfilter/nf_conntrack_max": "1000\n", "proc/net/stat/nf_conntrack": fmt.Sprintf(counters, 4, 0)})
		later := time.AfterFunc(conntrackPause/2, func() {
			_ = os.WriteFile(filepath.Join(h.Proc, "net/stat/nf_conntrack"), fmt.Appendf(nil, counters, c.failed, c.drop), 0o600)
		})
		got := run(t, NodeConntrack, h)
		later.Stop()
		if _, raced := got[0].Facts[FactRaced]; raced != c.raced || got[0].Status != probe.OK {
			t.Errorf("%s: %+v", name, got)
		}
	}
	want(t, run(t, NodeConntrack, node(t, map[string]string{"proc/x": ""})), "", probe.Skip, "not loaded")
	odd := node(t, map[string]string{"proc/sys/net/netfilter/nf_conntrack_count": "many\n"})
	want(t, run(t, NodeConntrack, odd), "", probe.Unknown, "nf_conntrack_count")
}

// TestIdleConnections holds the limits of how long an idle connection keeps its entry.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		seconds, loose string
		status         probe.Status // "" = no result
	}{
		{"1", "1", probe.Warn}, {"59", "1", probe.Warn}, {"60", "1", probe.Info}, {"299", "1", probe.Info},
		{"300", "1", ""}, {"86400", "1", ""}, {"59", "0", probe.Warn}, {"60", "0", probe.Warn},
		{"299", "0", probe.Warn}, {"300", "0", ""}, {"60", "?", probe.Info}, {"0", "0", ""}, {"-1", "0", ""},
	} {
		got := run(t, NodeConntrack, node(t, map[string]string{"proc/sys/net/netfilter/nf_conntrack_count": "1\n",
			"proc/sys/net/netfilter/nf_conntrack_max":                     "1000\n",
			"proc/sys/net/netfilter/nf_conntrack_tcp_loose":               c.loose + "\n",
			"proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established": c.seconds + "\n"}))
		if c.status == "" {
			if len(got) != 1 {
				t.Errorf("%+v: %+v", c, got)
			}
			continue
		}
		r := want(t, got, TargetIdle, c.status, "loses its entry after "+c.seconds+" s")
		idle, _ := r.Facts.Num(FactIdle)
		if strict := c.loose == "0"; strconv.Itoa(int(idle)) != c.seconds || r.Facts[FactLoose] == strict ||
			strings.Contains(r.Saw, "is dropped") != strict {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}

func TestNodeSysctl(t *testing.T) {
	t.Parallel()
	const v4, v6 = "net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"
	on := node(t, map[string]string{"proc/sys/" + v4: "1\n", "proc/sys/" + v6: "1\n"})
	off := node(t, map[string]string{"proc/sys/" + v4: "0\n", "proc/sys/" + v6: "0\n"})
	both := []probe.Target{self("10.0.0.1"), self("fd00::1")}
	want(t, run(t, NodeSysctl, on, both...), v4, probe.OK, "1")
	want(t, run(t, NodeSysctl, on, both...), v6, probe.OK, "1")
	want(t, run(t, NodeSysctl, off, both...), v4, probe.Fail, "does not forward")
	want(t, run(t, NodeSysctl, off, both...), v6, probe.Fail, "does not forward")
	want(t, run(t, NodeSysctl, off, both[0]), v6, probe.Skip, "no address of that family")
	want(t, run(t, NodeSysctl, node(t, map[string]string{"proc/x": ""})), v4, probe.Skip, "no such setting")
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
		h := node(t, map[string]string{
			"proc/sys/net/ipv4/conf/all/rp_filter":             c.all + "\n",
			"proc/sys/net/ipv4/conf/vxlan.calico/rp_filter":    c.tunnel + "\n",
			"proc/sys/net/ipv4/conf/cali12345678901/rp_filter": "1\n",
			"proc/sys/net/ipv4/conf/docker0/rp_filter":         "1\n", "proc/net/netstat": c.netstat,
		})
		t.Run(name, func(t *testing.T) {
			want(t, run(t, NodeSysctl, h, probe.Target{Kind: probe.KindCalico, Name: c.version}), "rp_filter",
				c.status, c.saw)
		})
	}
	want(t, run(t, NodeSysctl, node(t, nil)), "rp_filter", probe.Skip, "no such setting")
}

// FuzzNetstat reads the kernel's counters.
func FuzzNetstat(f *testing.F) {
	f.Add("TcpExt: IPReversePathFilter\nTcpExt: 12\n")
	f.Fuzz(func(_ *testing.T, text string) { netCounter(text, "IPReversePathFilter") })
}

// TestNodeClock takes the API server's clock from the plan.
func TestNodeClock(t *testing.T) {
	t.Parallel()
	ask := func(skew time.Duration) []probe.Result {
		var got []probe.Result
		now := time.Now().Add(-skew)
		r := probe.Runner{Suite: []*probe.Check{NodeClock}, Host: &probe.Host{}}
		r.Run(t.Context(), probe.Plan{Checks: []string{NodeClock.ID}, Now: now}, func(ev probe.Event) {
			if ev.Result != nil {
				got = append(got, *ev.Result)
			}
		})
		return got
	}
	if got := ask(0); got[0].Status != probe.OK && got[0].Status != probe.Info {
		t.Errorf("%+v", got)
	}
	want(t, ask(20*time.Second), "", probe.Warn, "20s ahead of the API server's clock")
	want(t, ask(-2*time.Hour), "", probe.Fail, "2h0m0s behind the API server's clock")
	want(t, run(t, NodeClock, &probe.Host{}), "", probe.Info, "no other clock")
}

func TestNodeNeighbours(t *testing.T) {
	t.Parallel()
	h := node(t, map[string]string{"proc/sys/net/ipv4/neigh/default/gc_thresh3": "1024\n"})
	for entries, s := range map[int]probe.Status{3: probe.OK, 819: probe.OK, 820: probe.Warn, 1024: probe.Fail} {
		if r := full(h, 4, entries); r.Status != s {
			t.Errorf("%d entries: %+v", entries, r)
		}
	}
	if s := stateOf([]kernel.Neighbour{{Addr: netip.MustParseAddr("10.0.0.2"), State: "failed"}},
		netip.MustParseAddr("10.0.0.2")); s != "failed" {
		t.Error(s)
	}
	if r := full(h, 6, 3); r.Status != probe.Info {
		t.Errorf("without a limit: %+v", r)
	}
}

// TestOddEntry wants entries for other nodes told that no answer on the link makes, and no usual one.
func TestOddEntry(t *testing.T) {
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
		r, is := oddEntry(kernel.Neighbour{Device: "eth0", MAC: c.mac, State: c.state}, own)
		if is != c.is || r.Status != c.status || is && r.Facts[FactOwnMAC] != (c.mac == own) {
			t.Errorf("%s %s: %v %+v", c.mac, c.state, is, r)
		}
	}
}
