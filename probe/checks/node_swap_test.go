package checks

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

func TestNodeSwap(t *testing.T) {
	t.Parallel()
	const head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
	swap := head + "/dev/sda3                               partition\t2097148\t\t0\t\t-2\n"
	want(t, run(t, NodeSwap, node(t, map[string]string{"proc/swaps": head})), "", probe.OK, "no swap")
	r := want(t, run(t, NodeSwap, node(t, map[string]string{"proc/swaps": swap})), "", probe.Fail, "/dev/sda3")
	if len(r.Lines) != 1 {
		t.Errorf("no evidence: %+v", r)
	}
	for config, s := range map[string]probe.Status{"failSwapOn: false\n": probe.Info, "failSwapOn: true\n": probe.Fail, "kind: x\n": probe.Fail} {
		h := node(t, map[string]string{"proc/swaps": swap, "var/lib/kubelet/config.yaml": config})
		want(t, run(t, NodeSwap, h), "", s, "/dev/sda3")
	}
	want(t, run(t, NodeSwap, node(t, map[string]string{"proc/x": ""})), "", probe.OK, "no swap") // CONFIG_SWAP=n
	want(t, run(t, NodeSwap, &probe.Host{Proc: "/nowhere"}), "", probe.Unknown, "/nowhere")
}
