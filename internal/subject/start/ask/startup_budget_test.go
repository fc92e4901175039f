package ask

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/node"
)

// TestMeasured has the processes of calico-node's container with several start times, in hundredths of a second since
// boot.
func TestMeasured(t *testing.T) {
	t.Parallel()
	tree := func(watched int, felix ...string) *probe.Host {
		files := map[string]string{"proc/uptime": "1100.00 1.00\n", "proc/loadavg": "900.00 1.00 1.00 1/100 1\n",
			"proc/stat": checktest.TwoCPUs}
		checktest.Process(files, 1, 0, "systemd", 0, "", "/sbin/init")
		checktest.Process(files, 70, 1, "containerd-shim", 99000, "", "containerd-shim-runc-v2")
		checktest.Process(files, 71, 70, "runsvdir", 100000, "\t1", "/usr/local/bin/runsvdir", "-P", "/etc/service/enabled")
		checktest.Process(files, 72, 71, "runsv", watched, "\t60", "runsv", "felix")
		checktest.Process(files, 73, 72, "calico-node", 109000, "\t90", felix...) // restarted by runit
		return checktest.Node(t, files)
	}
	calico := []string{"calico-node", "-felix"}
	checktest.Want(t, checktest.Run(t, startupBudgetCheck, tree(100200, calico...), checktest.Budget("60")), "measured",
		probe.OK,
		"start-up took 2s until Felix", "allows 1m0s")
	checktest.Want(t, checktest.Run(t, startupBudgetCheck, tree(100200, "calico", "component", "felix"),
		checktest.Budget("60")), "measured", probe.OK,
		"2s")
	s := httptest.NewTLSServer(checktest.Says(403, "forbidden"))
	t.Cleanup(s.Close)
	near := checktest.APIAt(netip.MustParseAddrPort(s.Listener.Addr().String()))
	checktest.Want(t, checktest.Run(t, startupBudgetCheck, tree(100200, calico...), near, checktest.Budget("60")),
		"estimate",
		probe.Warn,
		"450.0 times as long", "its next start")
	r := checktest.Want(t, checktest.Run(t, startupBudgetCheck, tree(100200, "calico-node", "-startup"), near,
		checktest.Budget("60")), "estimate",
		probe.Fail, "450.0 times as long")
	trip, _ := r.Facts.Num(factTrip)
	far, there := r.Facts.Num(start.FactFar)
	if work, _ := r.Facts.Num(start.FactWork); work != 900 || !there || trip <= 0 || far > trip {
		t.Errorf("parts of the estimate: %v", r.Facts)
	}
	files := map[string]string{"proc/loadavg": "900.00 1.00 1.00 1/100 1\n", "proc/stat": checktest.TwoCPUs}
	checktest.Process(files, 1, 0, "systemd", 0, "", "/sbin/init")
	checktest.Process(files, 73, 1, "calico-node", 109000, "",
		calico...) // not started by runit, so the duration of its start is not visible
	checktest.Want(t, checktest.Run(t, startupBudgetCheck, checktest.Node(t, files), near, checktest.Budget("60")),
		"measured",
		probe.Skip, "not runit")
	checktest.Want(t, checktest.Run(t, startupBudgetCheck, checktest.Node(t, files), near, checktest.Budget("60")),
		"estimate",
		probe.Warn, "its next start")
	files["proc/1/comm"] = "probe\n"
	checktest.Process(files, 73, 1, "bash", 109000, "")
	checktest.Want(t, checktest.Run(t, startupBudgetCheck, checktest.Node(t, files), near, checktest.Budget("60")),
		"estimate",
		probe.Warn,
		"unknown whether Felix is running")
	checktest.Want(t, checktest.Run(t, startupBudgetCheck, tree(104000, calico...), checktest.Budget("60")), "measured",
		probe.Info, "took 40s")
	checktest.Want(t, checktest.Run(t, startupBudgetCheck, tree(107000, calico...), checktest.Budget("60")), "measured",
		probe.Warn, "took 1m10s")
	checktest.Want(t, checktest.Run(t, startupBudgetCheck, tree(107000, "calico-node", "-felix-live"),
		checktest.Budget("60")),
		"measured", probe.Skip,
		"not visible")
	checktest.Want(t, checktest.Run(t, startupBudgetCheck, tree(107000, "calico-node", "-startup"),
		checktest.Budget("60")),
		"measured", probe.Fail,
		"running for 1m40s and has not started Felix")
	checktest.Want(t, checktest.Run(t, startupBudgetCheck, tree(107000, "calico-node", "-startup"),
		checktest.Budget("300")),
		"measured", probe.OK,
		"running for 1m40s")
	checktest.Want(t, checktest.Run(t, startupBudgetCheck, tree(107000, "calico-node", "-startup"),
		checktest.Budget("120")),
		"measured", probe.Warn,
		"running for 1m40s")
	checktest.Want(t, checktest.Run(t, startupBudgetCheck, checktest.Node(t, map[string]string{"proc/1/comm": "probe\n"}),
		checktest.Budget("60")), "measured",
		probe.Skip, "are not visible")
	checktest.Want(t, checktest.Run(t, startupBudgetCheck, &probe.Host{}, checktest.Budget("0")), "", probe.Skip,
		"no liveness")
	checktest.Want(t, checktest.Run(t, startupBudgetCheck, &probe.Host{}, checktest.Self("10.0.0.1")), "", probe.Skip,
		"no calico-node")
}

// TestEstimated has a distant datastore, and a load with and without tasks that wait for a CPU.
func TestEstimated(t *testing.T) {
	t.Parallel()
	far := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
		time.Sleep(60 * time.Millisecond)
	}))
	t.Cleanup(far.Close)
	datastore := checktest.APIAt(netip.MustParseAddrPort(far.Listener.Addr().String()))
	loaded := func(load, waits string) *probe.Host {
		return checktest.Node(t, map[string]string{
			"proc/1/comm": "systemd\n", "proc/loadavg": load + " 1.00 1.00 1/100 1\n",
			"proc/stat":         "cpu  1 0 1 1 0 0 0 0 0 0\ncpu0 1 0 1 1 0 0 0 0 0 0\n",
			"proc/pressure/cpu": "some avg10=" + waits + " avg60=1.00 avg300=1.00 total=1\n",
		})
	}
	idle := loaded("0.10", "0.00")
	// A start takes 20 calls of 60 ms, plus 2 s.
	for seconds, s := range map[string]probe.Status{"60": probe.OK, "6": probe.Warn, "3": probe.Fail} {
		checktest.Want(t, checktest.Run(t, startupBudgetCheck, idle, datastore, checktest.Budget(seconds)), "estimate", s,
			"20 calls of ", "allows ")
	}
	checktest.Want(t, checktest.Run(t, startupBudgetCheck, loaded("40.00", "99.00"), datastore, checktest.Budget("60")),
		"estimate", probe.Fail,
		"40.0 times as long")
	// The tasks wait for a disk.
	checktest.Want(t, checktest.Run(t, startupBudgetCheck, loaded("40.00", "3.00"), datastore, checktest.Budget("60")),
		"estimate", probe.OK, "20 calls")
	etcd := checktest.APIAt(netip.MustParseAddrPort("127.0.0.1:1"))
	etcd.Name = node.NameEtcd
	checktest.Want(t, checktest.Run(t, startupBudgetCheck, idle, datastore, etcd, checktest.Budget("60")), "estimate",
		probe.Skip, "does not answer")
}
