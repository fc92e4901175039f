package ask

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestKubeletNotKnown expects unknown results from checks that depend on the kubelet's settings, if two processes may
// be the kubelet.
func TestKubeletNotKnown(t *testing.T) {
	t.Parallel()
	files := map[string]string{"proc/swaps": "Filename Type Size Used Priority\n", "proc/1/cgroup": "0::/\n",
		"proc/1/comm": "init\n", "proc/1/cmdline": "init\x00"}
	for _, pid := range []int{7, 8} {
		checktest.Process(files, pid, 1, "kubelet", 5, "", "kubelet", "--fail-swap-on=false")
	}
	for _, c := range []*probe.Check{runnable(host.NodeSwap), runnable(kubelet.KubeletHealth)} {
		checktest.Want(t, checktest.Run(t, c, checktest.Node(t, files)), "", probe.Unknown, "2 processes may be the node's kubelet")
	}
}

// TestLaidByPods has a named pipe or a socket in place of a file that a pod may be able to write.
func TestLaidByPods(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		check  *probe.Check
		file   string
		target string
		status probe.Status
	}{
		{runnable(cni.CNIConfig), "etc/cni/net.d/00-x.conflist", "", probe.Unknown},
		{runnable(cni.CNINodename), "var/lib/calico/nodename", "", probe.Unknown},
		{runnable(cni.IPAMFiles), "var/lib/cni/networks/k8s-pod-network/lock", "", probe.Unknown},
		{runnable(host.NodeSwap), "etc/fstab", "", probe.Unknown},
		{runnable(kubelet.KubeletHealth), "var/lib/kubelet/config.yaml", "", probe.Unknown},
	} {
		for kind, lay := range laying() {
			h := checktest.Node(t, map[string]string{"proc/swaps": "Filename Type Size Used Priority\n",
				"etc/cni/net.d/10-calico.conflist": `{"plugins":[{"type":"calico"}]}`, c.file: "", "dev/x": ""})
			full := filepath.Join(h.Root, c.file)
			must.Do(t, os.Remove(full))
			must.Do(t, lay(full))
			checktest.Want(t, checktest.Run(t, c.check, h), c.target, c.status, "is a "+kind+" and not a file: not read")
		}
	}
}
