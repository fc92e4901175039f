package ask

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
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
		h := checktest.Node(t, map[string]string{"proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: " + c.available + " kB\n", "proc/vmstat": c.vmstat})
		t.Run(name, func(t *testing.T) { checktest.Want(t, checktest.Run(t, nodeMemoryCheck, h), "", c.status, c.saw) })
	}
	h := checktest.Node(t, map[string]string{"proc/meminfo": "MemTotal: 16000000 kB\n"})
	checktest.Want(t, checktest.Run(t, nodeMemoryCheck, h), "", probe.Unknown, "has no MemAvailable")
}

// TestMemoryInside reads OOM kills and the limit from the cgroup of calico-node's container, in both cgroup versions.
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
			"2 OOM kills in calico-node's container since it started; the container kept running; the container has a memory limit"},
		"v2, no limit": {"0::/a\n", "a/memory.events", "oom_kill 2\n", "a/memory.max", "max\n", probe.Warn,
			"kept running"},
		"v1": {"4:memory:/a\n", "memory/a/memory.oom_control",
			"oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", "memory/a/memory.limit_in_bytes", "30000000\n",
			probe.Warn, "kept running; the container has a memory limit"},
		"v1, no limit": {"4:memory:/a\n", "memory/a/memory.oom_control", "oom_kill 1\n",
			"memory/a/memory.limit_in_bytes", "9223372036854771712\n", probe.Warn, "kept running"},
		"never":       {"0::/a\n", "a/memory.events", "oom_kill 0\n", "x", "", probe.OK, "no OOM kill"},
		"not visible": {"0::/a\n", "b/memory.events", "", "x", "", "", ""},
	} {
		files := map[string]string{"proc/1/comm": "systemd\n", "proc/9/cgroup": c.cgroup,
			"sys/fs/cgroup/" + c.file: c.text, "sys/fs/cgroup/" + c.limit: c.max,
			"proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n"}
		checktest.Process(files, 9, 1, "calico-node", 1, "\t1", "calico-node", "-felix")
		got := checktest.Run(t, nodeMemoryCheck, checktest.Node(t, files))
		if c.status != "" {
			r := checktest.Want(t, got, "calico-node memory", c.status, c.saw)
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
		disk   host.Disk
		frozen bool
		status probe.Status
		name   string
	}{
		"5 % of":                             {host.Disk{Free: 5, FreeInodes: 95}, false, probe.Warn, "/run"},
		"1 % of 8.0 MB":                      {host.Disk{Free: 1, FreeInodes: 95, Total: 8e6}, false, probe.Fail, "/run"},
		", 0 % of the inodes":                {host.Disk{Free: 90}, false, probe.Fail, "/run"},
		"11 % of":                            {host.Disk{Free: 11, FreeInodes: 95}, false, probe.OK, "/run"},
		"61 % of 100.0 GB":                   {host.Disk{Free: 61, FreeInodes: 95, Total: 1e11}, false, probe.OK, "/"},
		"12 % of":                            {host.Disk{Free: 12, FreeInodes: 95}, false, probe.Warn, "/"},
		"9 % of":                             {host.Disk{Free: 9.4, FreeInodes: 95}, false, probe.Fail, "/"},
		"4 % of the inodes":                  {host.Disk{Free: 50, FreeInodes: 4}, false, probe.Fail, "/"},
		"read-only: remounted by the kernel": {host.Disk{Free: 50, FreeInodes: 50}, true, probe.Fail, "/"},
	} {
		if r := host.Roomy(c.disk, c.name, c.frozen); r.Status != c.status || !strings.Contains(r.Saw, saw) {
			t.Errorf("%+v: %s %s", c.disk, r.Status, r.Saw)
		}
	}
	// The mount table of the node's first process, not the probe's own.
	h := checktest.Node(t, map[string]string{"proc/1/mountinfo": "1 0 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 ro,errors=remount-ro\n2 1 8:2 / /var/lib rw - ext4 /dev/sdb1 rw\n"})
	if !isReadOnly(h, "/") || !isReadOnly(h, "/var") || isReadOnly(h, "/var/lib/kubelet") {
		t.Error("the mount table was misread")
	}
	if got := checktest.Run(t, nodeDiskCheck, h); len(got) == 0 || got[0].Target != "/" ||
		got[0].Facts[host.FactReadOnly] != true {
		t.Errorf("%+v", got)
	}
}

// TestNodeClock takes the API server's clock from the plan, and more exactly from the Date of an answer.
func TestNodeClock(t *testing.T) {
	t.Parallel()
	ask := func(late time.Duration, targets ...probe.Target) []probe.Result {
		var got []probe.Result
		plan := probe.Plan{Checks: []string{nodeClockCheck.ID}, Targets: targets, Now: time.Now().Add(-late)}
		r := probe.Runner{Suite: []*probe.Check{nodeClockCheck}, Host: &probe.Host{}}
		r.Run(t.Context(), plan, func(ev probe.Event) {
			if ev.Result != nil {
				got = append(got, *ev.Result)
			}
		})
		return got
	}
	if got := ask(0); got[0].Status != probe.OK && got[0].Status != probe.Info {
		t.Errorf("%+v", got)
	}
	checktest.Want(t, ask(20*time.Second), "", probe.Info, "at most 20s ahead of the API server's clock")
	checktest.Want(t, ask(2*time.Hour), "", probe.Fail, "2h0m0s ahead of the API server's clock")
	checktest.Want(t, ask(-2*time.Hour), "", probe.Fail, "2h0m0s behind the API server's clock")
	checktest.Want(t, checktest.Run(t, nodeClockCheck, &probe.Host{}), "", probe.Info, "clock is unavailable")

	// An API server whose clock differs from this one's, and that may take its time.
	server := func(skew, takes time.Duration) probe.Target {
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", time.Now().Add(-skew).UTC().Format(http.TimeFormat))
			time.Sleep(takes)
			w.WriteHeader(http.StatusUnauthorized)
		}))
		t.Cleanup(s.Close)
		at := netip.MustParseAddrPort(s.Listener.Addr().String())
		return probe.Target{Kind: probe.KindDatastore, Name: "a", Addr: at.Addr(), Port: int(at.Port())}
	}
	dead := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t) // accepts, and never answers
	t.Cleanup(func() { _ = dead.Close() })
	to := netip.MustParseAddrPort(dead.Addr().String())
	silent := probe.Target{Kind: probe.KindDatastore, Name: "dead", Addr: to.Addr(), Port: int(to.Port())}
	got := ask(30*time.Second, silent, server(20*time.Second, 0))
	checktest.Want(t, got, "", probe.Warn, "ahead of the API server's clock")
	// Two servers that contradict each other say nothing about the node.
	for late, skew := range map[time.Duration]time.Duration{0: time.Hour, time.Second: -time.Hour, 2 * time.Hour: 0} {
		checktest.Want(t, ask(late, server(skew, 0)), "", probe.Unknown, "a server's clock is wrong")
	}
	for name, c := range map[string]struct {
		late, skew, takes time.Duration
		bad               bool
		saw               string
	}{
		"late plan":         {90 * time.Second, 0, 0, false, "of the API server's clock"},
		"slow answer":       {0, 0, 1500 * time.Millisecond, false, "of the API server's clock"},
		"ahead":             {30 * time.Second, 20 * time.Second, 0, true, "ahead of the API server's clock"},
		"behind":            {-20 * time.Second, -20 * time.Second, 0, true, "behind the API server's clock"},
		"behind, late plan": {70 * time.Second, -20 * time.Second, 0, true, "behind the API server's clock"},
	} {
		r := ask(c.late, server(c.skew, c.takes))[0]
		if bad := r.Status == probe.Warn; bad != c.bad || r.Status == probe.Fail || !strings.Contains(r.Saw, c.saw) {
			t.Errorf("%s: %s %s", name, r.Status, r.Saw)
		}
	}
}
