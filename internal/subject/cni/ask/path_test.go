package ask

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/node"
)

func TestCNIConfigElsewhere(t *testing.T) {
	t.Parallel()
	const conflist = `{"plugins":[{"type":"calico","ipam":{"type":"calico-ipam"}}]}`
	used := node.CNIPlace{Config: "/var/lib/rancher/k3s/agent/etc/cni/net.d", Plugins: []string{"/opt/cni/bin"}}
	h := checktest.Node(t, map[string]string{"etc/cni/net.d/10-calico.conflist": conflist, "opt/cni/bin/calico": "#!", "opt/cni/bin/calico-ipam": "#!",
		"var/lib/rancher/k3s/agent/etc/cni/net.d/.keep": ""})
	r := searchElsewhere(h, networksAt(h, []node.CNIPlace{used}, true), used)
	if r.Facts.Str(probe.FactReason) != cni.CNIElsewhere || !strings.Contains(r.Saw, used.Config) ||
		r.Facts.Str(cni.FactBehind) != "/etc/cni/net.d/10-calico.conflist" {
		t.Errorf("%v: both folders are to be named", r)
	}
	gone := checktest.Node(t, map[string]string{"var/lib/rancher/k3s/agent/etc/cni/net.d/.keep": "", "etc/cni/net.d/05-bridge.conf": `{"type":"bridge"}`})
	if r := searchElsewhere(gone, networksAt(gone, []node.CNIPlace{used}, true), used); pathReason(r) != cni.CNINone {
		t.Errorf("%v: Calico's file is nowhere", r)
	}
	bins := node.CNIPlace{Config: "/etc/cni/net.d", Plugins: []string{"/usr/lib/cni"}}
	h = checktest.Node(t, map[string]string{"etc/cni/net.d/10-calico.conflist": conflist, "opt/cni/bin/calico": "#!", "opt/cni/bin/calico-ipam": "#!",
		"usr/lib/cni/loopback": ""})
	if r := searchElsewhere(h, networksAt(h, []node.CNIPlace{bins}, true),
		bins); r.Facts.Str(cni.FactBinaries) != "/opt/cni/bin" {
		t.Errorf("%v: the folder with the plugins is to be named", r)
	}
}

func pathReason(r probe.Result) string { return r.Facts.Str(probe.FactReason) }
