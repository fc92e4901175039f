package diagnose

import (
	"fmt"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
)

// nodeRules are those of the kubelet, the runtime, the machine, and of what keeps a
// probe off it.
func nodeRules() []*Rule { return []*Rule{SwapOn, KubeletDead} }

// SwapOn is incident 003a.
var SwapOn = &Rule{
	ID: "swap-on", Title: "swap keeps the kubelet from starting",
	Doc: `A kubelet that is not told otherwise refuses to start while swap is on ("running with swap on is not supported") and is started again for ever. A kubelet that runs already is not touched, so the fault waits for the next reboot or restart: swapoff by hand lasts until then, an entry in /etc/fstab or a swap unit brings swap back.
Told from a node that is cut off or powered off by the node's own files, read over ssh, and by what its ports answer to a neighbour.`,
	Fix: probe.Fix{
		Says: "Turn swap off now, take away what turns it on at boot, and start the kubelet.",
		Manifest: []string{
			"ssh {node} sudo swapoff -a",
			`ssh {node} "sudo sed -i.bak '/[[:space:]]swap[[:space:]]/ s/^[^#]/#&/' /etc/fstab"  # and 'systemctl mask' a swap unit`,
			"ssh {node} sudo systemctl restart kubelet",
		},
		Radius: "this node only; swapoff moves what was swapped out back into memory, so look at free memory first; running pods stay",
	},
	Wants: []string{checks.KubeletHealth.ID}, Explains: []string{"kubelet-dead"},
	Match: func(f Findings) []Case {
		swap := f.Failed(checks.NodeSwap.ID)
		dead := f.With(checks.KubeletHealth.ID, probe.FactReason, "refused")
		if len(swap) == 0 {
			return nil
		}
		c := Case{
			Says: fmt.Sprintf("swap is on (%s) and the kubelet does not run with it", swap[0].Saw),
			For:  clues(strong, swap), Covers: kubeletGone,
		}
		if len(dead) > 0 {
			c.For = append(c.For, clues(hint, dead)...)
		} else {
			c.Says = fmt.Sprintf("swap is on (%s): the kubelet that runs now will not start again", swap[0].Saw)
		}
		return []Case{c}
	},
}

// kubeletGone is what a kubelet that does not run leaves behind.
var kubeletGone = Covers(cluster.CheckNodeReady, cluster.CheckNodeLease, cluster.CheckNodeTaints, cluster.CheckCalicoPod, checks.KubeletHealth.ID)

// KubeletDead is a kubelet that does not run, whatever keeps it from that.
var KubeletDead = &Rule{
	ID: "kubelet-dead", Title: "the kubelet does not run",
	Doc: `A kubelet that ended stops renewing its lease at once; 40 s later the node is NotReady ("Kubelet stopped posting node status"), while its pods keep running and are still shown as Running. Its ports refuse connections, which tells it from a frozen kubelet (connections are taken, nothing is answered) and from a node that is cut off or off (no answer at all).`,
	Fix: probe.Fix{
		Says:     "See why it ended, on the node, and start it.",
		Manifest: []string{"ssh {node} sudo journalctl -u kubelet -n 50 --no-pager", "ssh {node} sudo systemctl restart kubelet"},
		Radius:   "this node only; a kubelet that starts does not restart running pods",
	},
	Wants: []string{checks.KubeletHealth.ID},
	Match: func(f Findings) []Case {
		lease := f.Failed(cluster.CheckNodeLease)
		dead := f.With(checks.KubeletHealth.ID, probe.FactReason, "refused")
		if len(lease) == 0 && len(dead) == 0 {
			return nil
		}
		return []Case{{
			Says: "the kubelet does not run on {node}", For: append(clues(proof, dead), clues(strong, lease)...), Covers: kubeletGone,
		}}
	},
}
