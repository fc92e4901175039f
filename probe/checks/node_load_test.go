package checks

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

func TestNodeLoad(t *testing.T) {
	t.Parallel()
	stat := "cpu  1 0 1 1 0 0 0 0 0 0\ncpu0 1 0 1 1 0 0 0 0 0 0\ncpu1 1 0 1 1 0 0 0 0 0 0\nbtime 1\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n"
	for load, s := range map[string]probe.Status{"0.50": probe.OK, "7.90": probe.OK, "8.00": probe.Warn, "20.00": probe.Fail, "61.32": probe.Fail} {
		h := node(t, map[string]string{
			"proc/loadavg": load + " 1.00 1.00 1/100 1\n", "proc/stat": stat,
			"proc/pressure/cpu": "some avg10=83.50 avg60=1.00 avg300=1.00 total=1\n",
		})
		r := want(t, run(t, NodeLoad, h), "", s, "load "+load+" on 2 CPUs")
		if n, _ := r.Facts.Num(FactCPUPressure); n != 83.5 {
			t.Errorf("pressure %v", r.Facts)
		}
	}
	want(t, run(t, NodeLoad, node(t, map[string]string{"proc/loadavg": "nonsense"})), "", probe.Unknown, "loadavg")
}
