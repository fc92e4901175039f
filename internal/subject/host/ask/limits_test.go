package ask

import (
	"slices"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
)

func TestNodeLimits(t *testing.T) {
	t.Parallel()
	h := checktest.Node(t, map[string]string{
		"proc/loadavg": "0.20 0.18 0.12 1/990 11206\n", "proc/sys/kernel/pid_max": "32768\n",
		"proc/sys/kernel/threads-max":          "1000\n",
		"proc/sys/fs/file-nr":                  "1000\t0\t1000\n",
		"sys/fs/cgroup/kubepods/pod1/pids.max": "20\n", "sys/fs/cgroup/kubepods/pod1/pids.current": "19\n",
		"sys/fs/cgroup/kubepods/pids.max": "max\n", "sys/fs/cgroup/kubepods/pids.current": "19\n",
	})
	want := map[string]probe.Status{"kernel.pid_max": probe.OK, "kernel.threads-max": probe.Warn,
		"fs.file-max": probe.Fail}
	for _, l := range limitsOfKernel(h) {
		if status, is := want[l.holder]; is && l.result().Status != status {
			t.Errorf("%s: %v, want %s", l.holder, l.result(), status)
		}
		delete(want, l.holder)
	}
	if len(want) > 0 {
		t.Errorf("not reported: %v", want)
	}
	groups := groupsOf("pids", "0::/kubepods/pod1/abc\n")
	if !slices.Equal(groups, []string{"/sys/fs/cgroup/kubepods/pod1/abc", "/sys/fs/cgroup/kubepods/pod1", "/sys/fs/cgroup/kubepods"}) {
		t.Errorf("the cgroups above it are %v", groups)
	}
	l, is := groupLimit(h, groups[1], "calico-node")
	if !is || l.result().Status != probe.Warn {
		t.Errorf("%v, want a warning for 19 of 20", l)
	}
	if _, is := groupLimit(h, groups[2], "calico-node"); is {
		t.Error("a cgroup without a limit has one")
	}
	few := limitUse{limitOpenFiles, "containerd", "open files", 62, 64, fewFiles}
	if r := few.result(); r.Status != probe.Fail {
		t.Errorf("%v: two files are too few", r)
	}
}
