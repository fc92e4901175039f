package ask

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
)

// TestMovedFolders has Calico's folders where MicroK8s, and the operator's calicoRunHostPath and calicoLibHostPath, put
// them.
func TestMovedFolders(t *testing.T) {
	t.Parallel()
	const lib, args = "var/snap/microk8s/current/var/lib/calico", "var/snap/microk8s/current/args/cni-network/"
	moved := probe.Target{Kind: probe.KindCalico, Attrs: map[string]string{
		probe.AttrLibFolder: "/" + lib, probe.AttrRunFolder: "/var/snap/microk8s/current/var/run/calico"}}
	list := func(file string) string {
		return strings.Replace(checktest.CalicoList, `{"type":"calico",`, `{"type":"calico","nodename_file":"`+file+`",`, 1)
	}
	named := func(files map[string]string) []probe.Result {
		h := checktest.Node(t, files)
		h.Node = "worker-3"
		return checktest.Run(t, runnable(cni.CNINodename), h, moved)
	}
	checktest.Want(t, named(map[string]string{lib + "/nodename": "worker-3",
		args + "10-calico.conflist": list("/" + lib + "/nodename")}), "", probe.OK, `"worker-3"`)
	checktest.Want(t, named(map[string]string{lib + "/nodename": "worker-3", "etc/cni/net.d/10-calico.conflist": checktest.CalicoList}), "",
		probe.Fail, "/var/lib/calico/nodename, which the CNI plugin reads, does not exist: calico-node writes /"+lib+"/nodename")
	checktest.Want(t, named(map[string]string{"etc/cni/net.d/10-calico.conflist": checktest.CalicoList}), "", probe.Fail,
		"(written by calico-node) do not exist: calico-node has not finished its start-up")
	checktest.Want(t, named(map[string]string{"etc/passwd": "worker-3", "var/lib/calico/nodename": "worker-3",
		"etc/cni/net.d/10-calico.conflist": list("/etc/passwd")}), "", probe.OK, `"worker-3"`)
	h := checktest.Node(t, map[string]string{"x": ""})
	h.Node = "worker-3"
	if r := checktest.Run(t, runnable(bgp.BirdSocket), h, moved); len(r) == 0 || !strings.HasPrefix(r[0].Target, "/var/snap/microk8s/current/var/run/calico/") {
		t.Errorf("%+v", r)
	}
	h = checktest.Node(t, map[string]string{"var/lib/calico/nodename": "worker-3"}) // as in calico-node's own container
	h.Node, h.Only = "worker-3", []string{"/var/lib/calico", "/etc/cni/net.d"}
	checktest.Want(t, checktest.Run(t, runnable(cni.CNINodename), h, moved), "", probe.OK, `"worker-3"`)
}
