//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/calico-probe/calico-probe/probe"
)

// TestTunnelsProven drops tunnel packets on one node, and requires the direction, the place and the tunnel in the
// report.
func TestTunnelsProven(t *testing.T) {
	slow(t)
	drop := func(family, chain, rule string) {
		mustSandbox(t, "exec", "node-b", "--", "nft", "add", "table", family, "fault")
		mustSandbox(t, "exec", "node-b", "--", "nft", "add", "chain", family, "fault", "c", chain)
		mustSandbox(t, "exec", "node-b", "--", "nft", "add", "rule", family, "fault", "c", rule)
		t.Cleanup(func() { mustSandbox(t, "exec", "node-b", "--", "nft", "delete", "table", family, "fault") })
	}
	drop("inet", "{ type filter hook input priority 0 ; }", "udp dport 4789 drop")
	drop("netdev", "{ type filter hook ingress device eth0 priority 0 ; }", "ip protocol 4 drop")

	d, a := report(t, "run", "--node", "node-a", "--checks", "encap-proof")
	if a.exit != 0 { // no pool encapsulates: nobody needs these ways
		t.Errorf("exit %d: %v\n%s", a.exit, d.Results, a.stderr)
	}
	d.want(t, "encap-proof", probe.Info, "node-a to node-b VXLAN IPv4", "own firewall drops them", "does not use them")

	patchPool(t, `{"spec":{"vxlanMode":"Always"}}`)
	t.Cleanup(func() { patchPool(t, `{"spec":{"vxlanMode":"Never","ipipMode":"Never"}}`) })
	d, a = report(t, "run", "--node", "node-a", "--checks", "encap-proof")
	if a.exit != 3 {
		t.Errorf("exit %d\n%s", a.exit, a.stderr)
	}
	d.want(t, "encap-proof", probe.Fail, "node-a to node-b VXLAN IPv4", "own firewall drops them")
	d.want(t, "encap-proof", probe.OK, "node-b to node-a VXLAN IPv4", "arrive")
	d.want(t, "encap-proof", probe.OK, "node-b to node-a IPIP IPv4", "arrive")
	d.want(t, "encap-proof", probe.OK, "node-a to node-b BGP IPv6", "session is up")

	d, _ = report(t, "run", "--node", "node-a", "--checks", "overlay-tunnels")
	d.want(t, "overlay-tunnels", probe.Info, "vxlan.calico: ", "Calico has no address for this node's")
	tunnel := func(addr string) { // which calico-node would register
		t.Helper()
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"projectcalico.org/IPv4VXLANTunnelAddr":%s}}}`, addr)
		_, err := kube(t).CoreV1().Nodes().Patch(context.Background(), "node-a", types.MergePatchType, patch,
			metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { tunnel("null") })
	tunnel(`"10.244.0.200"`)
	d, a = report(t, "run", "--node", "node-a", "--checks", "overlay-tunnels")
	if a.exit != 3 {
		t.Errorf("exit %d\n%s", a.exit, a.stderr)
	}
	d.want(t, "overlay-tunnels", probe.Fail, "interface vxlan.calico does not exist, but Calico uses VXLAN (Always) and registered 10.244.0.200")
	tunnel("null")

	patchPool(t, `{"spec":{"vxlanMode":"Never","ipipMode":"Always"}}`)
	d, _ = report(t, "run", "--node", "node-b", "--checks", "encap-proof")
	d.want(t, "encap-proof", probe.OK, "node-b to node-a IPIP IPv4", "arrive")
	d.want(t, "encap-proof", probe.Fail, "node-a to node-b IPIP IPv4", "own firewall drops them")
}

func patchPool(t *testing.T, patch string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	calls, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	pools := calls.Resource(schema.GroupVersionResource{
		Group: "crd.projectcalico.org", Version: "v1", Resource: "ippools",
	})
	if _, err := pools.Patch(context.Background(), "default-ipv4-ippool", types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
