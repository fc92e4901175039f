package diagnose

import (
	"fmt"
	"regexp"
	"slices"
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
			if len(lost) > 0 && onAddress(f, r) && hasPort(r, facts.ShutPorts, kubeletPort) {
				weight = strong
			}
			c := Case{For: append(clues(weight, []Finding{r}), clues(hint, lost)...)}
			if died := keep(diedAs(f, checks.PlacePolicy), diedAtHost(r.Facts.Str(facts.OnDevice))); len(died) > 0 {
				c = diedCase(f, died, proof, "")
				c.For = append(c.For, clues(strong, []Finding{r})...)
			}
			c.About = name
			c.Args = map[string]Arg{"hostendpoint": checked(name, isName(strings.ReplaceAll(name, ".", "-")), "NAME")}
			c.Says = fmt.Sprintf("HostEndpoint %s keeps others from {node}: %s", name, r.Saw)
			c.Covers = append(c.Covers, Covers(checks.NeighbourReach.ID, checks.KubeletHealth.ID)...)
			for _, one := range f.where(func(o Finding) bool { return o.Check == checks.ServiceNodePort.ID && bad(o.Status) }) {
				c.Covers = append(c.Covers, Cover{Check: one.Check, About: one.Target})
			}
			out = append(out, c)
		}
		return out
	},
}

// onAddress tells whether a HostEndpoint is about the interface with the node's address.
func onAddress(f Findings, r Finding) bool {
	device := r.Facts.Str(facts.OnDevice)
	uplink := func(o Finding) bool { return o.Node == f.Node && o.Facts.Str(checks.FactInterface) == device }
	return r.Facts[facts.OnAddress] == true || device != "" && slices.ContainsFunc(f.Of(checks.NodeUplink.ID), uplink)
}

// diedAtHost tells of an answer of packet-drops whether the packets died for want of a policy that accepts them at a
// HostEndpoint of an interface, of every one where that is "*", or "".
func diedAtHost(device string) func(Finding) bool {
	return func(r Finding) bool {
		m := chainOfHost.FindStringSubmatch(r.Facts.Str(checks.FactRuleChain))
		return m != nil && (device == "" || device == "*" || strings.HasPrefix(device, m[1]))
	}
}

// chainOfHost is a chain of Felix' for a HostEndpoint, to and from it and through the node, with the interface, which
// may be cut (felix/rules).
var chainOfHost = regexp.MustCompile(`cali-(?:th|fh|thfw|fhfw)-(.+)$`)
