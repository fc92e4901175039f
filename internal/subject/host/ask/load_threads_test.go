package ask

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestWaitingThreads expects a stuck thread of the kubelet with its kernel function, although the first thread runs. It
// expects no thread of other programs.
func TestWaitingThreads(t *testing.T) {
	t.Parallel()
	files := map[string]string{"proc/71/wchan": "rpc_wait_bit_killable"}
	for pid, name := range map[int]string{70: "kubelet", 80: "mysqld"} {
		checktest.Process(files, pid, 1, name, 0, "", name)
		stat := files[fmt.Sprintf("proc/%d/stat", pid)]
		files[fmt.Sprintf("proc/%d/task/%d/stat", pid, pid)] = stat
		files[fmt.Sprintf("proc/%d/task/%d/stat", pid, pid+1)] = strings.Replace(
			strings.Replace(stat, " S ", " D ", 1), fmt.Sprint(pid), fmt.Sprint(pid+1), 1)
	}
	h := checktest.Node(t, files)
	proc := must.Get(procfs.NewFS(h.Proc))(t)
	waiting := uninterruptible(proc)
	r := withStuck(h, probe.Found(probe.OK, "load 0.10"), waiting, waiting)
	in, _ := r.Facts[host.FactStuckIn].([]string)
	if !slices.Equal(in, []string{"kubelet (71) in rpc_wait_bit_killable"}) || r.Status != probe.Info {
		t.Errorf("%+v", r)
	}
}
