package checks

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// process writes what the proc file system tells of one.
func process(files map[string]string, pid, ppid int, comm string, began int, inside string, args ...string) {
	dir := fmt.Sprintf("proc/%d/", pid)
	files[dir+"comm"] = comm + "\n"
	files[dir+"cmdline"] = strings.Join(args, "\x00") + "\x00"
	files[dir+"stat"] = fmt.Sprintf("%d (%s) S %d 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0%s\n", pid, comm, ppid,
		began, strings.Repeat(" 0", 28))
	files[dir+"status"] = fmt.Sprintf("Name:\t%s\nUid:\t0\t0\t0\t0\nNSpid:\t%d%s\n", comm, pid, inside)
}

func budget(seconds string) probe.Target {
	return probe.Target{Kind: probe.KindCalico, Attrs: map[string]string{probe.AttrBudget: seconds}}
}

// TestMeasured has the processes of calico-node's container at several ages, in
// hundredths of a second since boot.
func TestMeasured(t *testing.T) {
	t.Parallel()
	tree := func(watched int, felix ...string) *probe.Host {
		files := map[string]string{"proc/uptime": "1100.00 1.00\n", "proc/loadavg": "900.00 1.00 1.00 1/100 1\n",
			"proc/stat": twoCPUs}
		process(files, 1, 0, "systemd", 0, "", "/sbin/init")
		process(files, 70, 1, "containerd-shim", 99000, "", "containerd-shim-runc-v2")
		process(files, 71, 70, "runsvdir", 100000, "\t1", "/usr/local/bin/runsvdir", "-P", "/etc/service/enabled")
		process(files, 72, 71, "runsv", watched, "\t60", "runsv", "felix")
		process(files, 73, 72, "calico-node", 109000, "\t90", felix...) // started anew by runit
		return node(t, files)
	}
	calico := []string{"calico-node", "-felix"}
	want(t, run(t, StartupBudget, tree(100200, calico...), budget("60")), "measured", probe.OK,
		"start-up took 2s until Felix", "allows 1m0s")
	want(t, run(t, StartupBudget, tree(100200, "calico", "component", "felix"), budget("60")), "measured", probe.OK,
		"2s")
	s := httptest.NewTLSServer(says(403, "forbidden"))
	t.Cleanup(s.Close)
	near := apiAt(netip.MustParseAddrPort(s.Listener.Addr().String()))
	want(t, run(t, StartupBudget, tree(100200, calico...), near, budget("60")), "estimate", probe.Warn,
		"450.0 times as long", "its next start")
	r := want(t, run(t, StartupBudget, tree(100200, "calico-node", "-startup"), near, budget("60")), "estimate",
		probe.Fail, "450.0 times as long")
	trip, _ := r.Facts.Num(FactTrip)
	far, there := r.Facts.Num(FactFar)
	if work, _ := r.Facts.Num(FactWork); work != 900 || !there || trip <= 0 || far > trip {
		t.Errorf("what it is made of: %v", r.Facts)
	}
	files := map[string]string{"proc/loadavg": "900.00 1.00 1.00 1/100 1\n", "proc/stat": twoCPUs}
	process(files, 1, 0, "systemd", 0, "", "/sbin/init")
	process(files, 73, 1, "calico-node", 109000, "", calico...) // not by runit: how long its start took is not to be seen
	want(t, run(t, StartupBudget, node(t, files), near, budget("60")), "measured", probe.Skip, "not runit")
	want(t, run(t, StartupBudget, node(t, files), near, budget("60")), "estimate", probe.Warn, "its next start")
	files["proc/1/comm"] = "probe\n"
	process(files, 73, 1, "bash", 109000, "")
	want(t, run(t, StartupBudget, node(t, files), near, budget("60")), "estimate", probe.Warn,
		"whether Felix runs cannot be seen")
	want(t, run(t, StartupBudget, tree(104000, calico...), budget("60")), "measured", probe.Info, "took 40s")
	want(t, run(t, StartupBudget, tree(107000, calico...), budget("60")), "measured", probe.Warn, "took 1m10s")
	want(t, run(t, StartupBudget, tree(107000, "calico-node", "-felix-live"), budget("60")), "measured", probe.Skip,
		"not visible")
	want(t, run(t, StartupBudget, tree(107000, "calico-node", "-startup"), budget("60")), "measured", probe.Fail,
		"running for 1m40s and has not started Felix")
	want(t, run(t, StartupBudget, tree(107000, "calico-node", "-startup"), budget("300")), "measured", probe.OK,
		"running for 1m40s")
	want(t, run(t, StartupBudget, tree(107000, "calico-node", "-startup"), budget("120")), "measured", probe.Warn,
		"running for 1m40s")
	want(t, run(t, StartupBudget, node(t, map[string]string{"proc/1/comm": "probe\n"}), budget("60")), "measured",
		probe.Skip, "are not visible")
	want(t, run(t, StartupBudget, &probe.Host{}, budget("0")), "", probe.Skip, "no liveness")
	want(t, run(t, StartupBudget, &probe.Host{}, self("10.0.0.1")), "", probe.Skip, "no calico-node")
}

// TestEstimated has a datastore at a distance, and a load with and without CPUs that
// are waited for.
func TestEstimated(t *testing.T) {
	t.Parallel()
	far := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
		time.Sleep(60 * time.Millisecond)
	}))
	t.Cleanup(far.Close)
	datastore := apiAt(netip.MustParseAddrPort(far.Listener.Addr().String()))
	loaded := func(load, waits string) *probe.Host {
		return node(t, map[string]string{
			"proc/1/comm": "systemd\n", "proc/loadavg": load + " 1.00 1.00 1/100 1\n",
			"proc/stat":         "cpu  1 0 1 1 0 0 0 0 0 0\ncpu0 1 0 1 1 0 0 0 0 0 0\n",
			"proc/pressure/cpu": "some avg10=" + waits + " avg60=1.00 avg300=1.00 total=1\n",
		})
	}
	idle := loaded("0.10", "0.00")
	// 20 calls of 60 ms, and 2 s
	for seconds, s := range map[string]probe.Status{"60": probe.OK, "6": probe.Warn, "3": probe.Fail} {
		want(t, run(t, StartupBudget, idle, datastore, budget(seconds)), "estimate", s, "20 calls of ", "allows ")
	}
	want(t, run(t, StartupBudget, loaded("40.00", "99.00"), datastore, budget("60")), "estimate", probe.Fail,
		"40.0 times as long")
	// they wait for a disk
	want(t, run(t, StartupBudget, loaded("40.00", "3.00"), datastore, budget("60")), "estimate", probe.OK, "20 calls")
	etcd := apiAt(netip.MustParseAddrPort("127.0.0.1:1"))
	etcd.Name = nameEtcd
	want(t, run(t, StartupBudget, idle, datastore, etcd, budget("60")), "estimate", probe.Skip, "does not answer")
}
