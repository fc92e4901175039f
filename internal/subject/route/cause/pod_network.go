package cause

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// podNetworkBroken is a pod whose own network namespace is not as the CNI plugin left it.
var podNetworkBroken = &diagnose.Rule{
	ID: "pod-network-broken", Layer: diagnose.LayerKernel,
	Title: "the network inside a pod is broken: interface, address, route or firewall",
	Doc: `Each pod has a network namespace of its own with an interface, an address and a default route, which the CNI plugin makes once, when the pod starts. Nothing repairs them later. An interface that was switched off, on the pod's side or the node's, an address or a route that a program in the pod deleted, and rules that a service mesh left behind and whose proxy is gone, cut off this one pod; what others see is a pod that does not answer, or one whose connections are refused at once.
Told from the node's routes and firewall by what is seen inside the pod.`,
	Fix: probe.Fix{
		Says: "Recreate the pod: its next network namespace is a new one. Where the rules are those of a service mesh, remove the pod from the mesh or start the mesh's proxy first.",
		Manifest: []string{"kubectl -n {of} get pod {name} -o wide",
			"kubectl -n {of} get pod {name} -o jsonpath='{.metadata.annotations}{\"\\n\"}{.metadata.ownerReferences}{\"\\n\"}'"},
		OnlyIf: []probe.Conditional{{If: "the pod has an owner that makes a new one",
			Manifest: []string{"kubectl -n {of} delete pod {name}"}}},
		Radius: "reading changes nothing; deleting ends this one pod, and its owner makes a new one",
	},
	RuledOut: []string{route.RouteBlocks.ID, link.NodePing.ID},
	Explains: []string{"pod-route-missing"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range f.Bad("pod-uplink") {
			if r.From == "" {
				continue
			}
			of, name, _ := strings.Cut(r.From, "/")
			c := diagnose.Case{About: r.From, For: diagnose.Proves([]diagnose.Finding{r}),
				Says: fmt.Sprintf("pod %s on {node} has no working network of its own: %s", r.From, r.Saw),
				Args: map[string]diagnose.Arg{"of": diagnose.CheckedArg(of, diagnose.IsName(of), "NAMESPACE"),
					"name": diagnose.CheckedArg(name, diagnose.IsName(name), "POD")}}
			for _, one := range f.Where(func(o diagnose.Finding) bool { return diagnose.IsBad(o.Status) && o.From == r.From }) {
				c.Covers = append(c.Covers, diagnose.Cover{Check: one.Check, About: one.Target})
			}
			out = append(out, c)
		}
		return out
	},
}
