package diagnose

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// hostEndpointBlocks is Calico's own policy, which keeps others from the node itself. It acts before what
// anything on the node listens at, so it lies in the layer of the kernel.
var hostEndpointBlocks = &Rule{
	ID: "hostendpoint-blocks", Layer: LayerKernel, Title: "a HostEndpoint of Calico's shuts ports of the node itself",
	Doc: `With a HostEndpoint policies hold for the node's own interface, and what none of them allows is dropped without a word, but for Felix's failsafe ports (ssh, BGP, the API server's 6443; not the kubelet's 10250). One that is made before its policies, or whose policies no longer select it, cuts the node off at once: no ping, no logs, exec or attach, no metrics, while the node stays Ready, for its kubelet calls out and answers come back.
Told from a firewall of somebody else's by the policies, which are gone through for these ports: no rule lets them in.`,
	Fix: probe.Fix{
		Says: "Write the policy that lets in what the node needs, or delete the HostEndpoint until there is one.",
		Manifest: []string{
			"kubectl get hostendpoints.crd.projectcalico.org {hostendpoint} -o yaml  # its labels, which policies select by",
			"kubectl get globalnetworkpolicies.crd.projectcalico.org -o yaml",
		},
		OnlyIf: []probe.Conditional{{If: "nobody needs the HostEndpoint, or the node has to be reached now",
			Manifest: []string{"kubectl delete hostendpoints.crd.projectcalico.org {hostendpoint}  # keep what the first command shows"}}},
		Radius: "reading changes nothing; without the HostEndpoint no policy of Calico's guards that interface of this node any more",
	},
	RuledOut: []string{facts.CheckNodeLease, facts.CheckNodeReady},
	Explains: []string{"kubelet-port-blocked", "node-unreachable", "kubelet-cut-off", "kubelet-frozen", "bgp-waits"},
	Match: func(f Findings) []Case {
		var out []Case
		for _, r := range f.Bad(facts.CheckHostEndpoints) {
			name := r.Facts.Str(facts.HostEndpoint)
			if name == "" {
				continue
			}
			silent := fromOutside(f, kubeletPort).silent
			lost := append(notPlaced(f, facts.ReasonAttach), silent...)
			weight := hint
			if len(lost) > 0 && r.Facts[facts.OnAddress] == true && hasPort(r, facts.ShutPorts, kubeletPort) {
				weight = strong
			}
			c := Case{
				About: name, Args: map[string]Arg{"hostendpoint": checked(name, isName(strings.ReplaceAll(name, ".", "-")),
					"NAME")},
				Says:   fmt.Sprintf("HostEndpoint %s keeps others from {node}: %s", name, r.Saw),
				For:    append(clues(weight, []Finding{r}), clues(hint, lost)...),
				Covers: Covers(checks.NeighbourReach.ID, checks.KubeletHealth.ID),
			}
			for _, one := range f.where(func(o Finding) bool { return o.Check == checks.ServiceNodePort.ID && bad(o.Status) }) {
				c.Covers = append(c.Covers, Cover{Check: one.Check, About: one.Target})
			}
			out = append(out, c)
		}
		return out
	},
}
