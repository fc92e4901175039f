package ask

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
)

func TestNodeLoad(t *testing.T) {
	t.Parallel()
	for load, want := range map[string]struct {
		status     probe.Status
		overloaded bool
	}{
		"0.50": {probe.OK, false}, "7.90": {probe.OK, false}, "8.00": {probe.Warn, false}, "19.90": {probe.Warn, false},
		"20.00": {probe.Warn, true}, "61.32": {probe.Warn, true},
	} {
		t.Run(load, func(t *testing.T) {
			t.Parallel()
			h := checktest.Node(t, map[string]string{
				"proc/loadavg": load + " 1.00 1.00 1/100 1\n", "proc/stat": checktest.TwoCPUs,
				"proc/pressure/cpu": "some avg10=83.50 avg60=1.00 avg300=1.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
				"proc/pressure/io":  "some avg10=9.00 avg60=1.00 avg300=1.00 total=1\nfull avg10=7.50 avg60=1.00 avg300=1.00 total=1\n",
			})
			r := checktest.Want(t, checktest.Run(t, nodeLoadCheck, h), "", want.status, "load "+load+" on 2 CPUs")
			if r.Facts[host.FactOverloaded] != want.overloaded {
				t.Errorf("overloaded %v", r.Facts)
			}
			if n, _ := r.Facts.Num(host.FactCPUPressure); n != 83.5 {
				t.Errorf("pressure %v", r.Facts)
			}
			if n, _ := r.Facts.Num(factIOFull); n != 7.5 {
				t.Errorf("pressure %v", r.Facts)
			}
		})
	}
	checktest.Want(t, checktest.Run(t, nodeLoadCheck, checktest.Node(t, map[string]string{"proc/loadavg": "nonsense"})),
		"",
		probe.Unknown, "loadavg")
}

// TestBrief expects a quick run to judge one reading, and to omit the facts that need two.
func TestBrief(t *testing.T) {
	t.Parallel()
	h := checktest.Node(t, map[string]string{"proc/loadavg": "0.50 1.00 1.00 1/100 1\n", "proc/stat": checktest.TwoCPUs})
	for brief, want := range map[bool]bool{true: false, false: true} {
		r := load(t.Context(), h, brief)
		if _, has := r.Facts.Num(factSteal); r.Status != probe.OK || has != want {
			t.Errorf("brief %v: %s, %v", brief, r.Status, r.Facts)
		}
	}
}

func TestSteal(t *testing.T) {
	t.Parallel()
	a := procfs.CPUStat{User: 10, Idle: 100, Steal: 5, Guest: 3}
	b := procfs.CPUStat{User: 10.2, Idle: 100.4, Steal: 5.4, Guest: 3.2}
	if n := steal(a, b); n < 39.9 || n > 40.1 {
		t.Errorf("%v", n)
	}
	if n := steal(b, a) + steal(a, a); n != 0 { // a reading that went back
		t.Errorf("%v", n)
	}
}

// TestThrottled reads the cgroup of calico-node in both versions, from the root and from another cgroup namespace.
func TestThrottled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cgroup, dir, stat string
		status            probe.Status // "" = no result
	}{
		"v1": {"5:memory:/x\n4:cpu,cpuacct:/kubepods/burstable/pod1/abc\n0::/x\n",
			"cpu,cpuacct/kubepods/burstable/pod1/abc", "nr_periods 1000\nnr_throttled 400\nthrottled_time 1\n",
			probe.Warn},
		"v2": {"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-abc.scope\n",
			"kubepods.slice/kubepods-pod1.slice/cri-containerd-abc.scope",
			"usage_usec 1\nnr_periods 1000\nnr_throttled 100\n", probe.OK},
		"v2, a namespace": {"0::/../../kubepods-pod1.slice/cri-containerd-abc.scope\n",
			"kubepods.slice/kubepods-burstable.slice/kubepods-pod1.slice/cri-containerd-abc.scope",
			"nr_periods 1000\nnr_throttled 250\n", probe.Warn},
		"just started":  {"0::/a\n", "a", "nr_periods 50\nnr_throttled 50\n", probe.OK},
		"no limit":      {"0::/a\n", "a", "nr_periods 0\nnr_throttled 0\n", ""},
		"unreadable":    {"0::/a\n", "a", strings.Repeat("x", 2<<20), probe.Unknown},
		"beside a file": {"0::/x/b\n", "a/b/x/b", "nr_periods 200\nnr_throttled 2\n", probe.OK},
		"too deep":      {"0::/b\n", "a/a/a/b", "nr_periods 9\n", ""},
		"not visible":   {"0::/b\n", "a", "nr_periods 9\n", ""},
	} {
		files := map[string]string{"proc/1/comm": "systemd\n", "proc/9/cgroup": c.cgroup,
			"sys/fs/cgroup/" + c.dir + "/cpu.stat": c.stat, "sys/fs/cgroup/cgroup.procs": "1\n"}
		checktest.Process(files, 9, 1, "calico-node", 1, "\t1", "calico-node", "-felix")
		r, limited := throttling(checktest.Node(t, files))
		if limited != (c.status != "") || r.Status != c.status {
			t.Errorf("%s: %v %s %s", name, limited, r.Status, r.Saw)
		}
	}
}

// FuzzCounts reads arbitrary cgroup files of names and numbers.
func FuzzCounts(f *testing.F) {
	f.Add("nr_periods 10\nnr_throttled 4\noom_kill 1\n")
	f.Fuzz(func(_ *testing.T, text string) {
		limitsIn(text)
		oomKill(text)
	})
}

// FuzzCgroup reads arbitrary cgroup files of a process.
func FuzzCgroup(f *testing.F) {
	f.Add("12:cpu,cpuacct:/kubepods/burstable\n0::/x:y\n")
	f.Fuzz(func(t *testing.T, text string) {
		if hierarchy, dir := cgroupOf(text, "cpu"); !strings.Contains(text, fmt.Sprintf("%s:%s", hierarchy, dir)) &&
			dir != "" {
			t.Errorf("%q %q", hierarchy, dir)
		}
	})
}
