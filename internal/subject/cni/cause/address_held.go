package cause

import (
	"fmt"
	"regexp"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// heldBy is the interface by which the route leads that is in the way, as Calico's plugin writes it.
var heldBy = regexp.MustCompile(`already exists for an interface other than .*Iface: ([\w.@-]{1,15})\)`)

// podAddressHeld is a new pod whose address another interface of the node has a route for.
var podAddressHeld = &diagnose.Rule{
	ID: "pod-address-held", Layer: diagnose.LayerCalico,
	Title: "IPAM assigns an address that another interface of the node still holds",
	Doc: `Calico's plugin gives a new pod an address and makes a route to it by the pod's own interface. Where the node has a route to that address already, by another interface, the plugin leaves that alone and fails: "route (...) already exists for an interface other than ...". The other interface is one of a pod that is gone for IPAM and not for the kernel: its address was released (by hand, by a datastore that was put back, or for a Node that was deleted and came back) while the interface, or the pod itself, stayed; or it is another program's, whose addresses overlap with the pool. The next attempt takes the next address, so it comes and goes.
Told from an address that another pod of the cluster has by the route, which is this node's, and from a plugin that fails in another way by these words, which name the interface.`,
	Fix: probe.Fix{
		Says: "See whose the interface is: it goes only where no living pod has the address.",
		Manifest: []string{
			"ssh {node} 'ip route show {address}; ip -d link show {device}'",
			"kubectl get pods -A -o wide --field-selector spec.nodeName={node} | grep -w {address}",
			"ssh {node} \"sudo crictl pods -q | xargs -r -n1 sudo crictl inspectp | grep -w -e {address}\"  # a sandbox that the API has forgotten",
			"calicoctl ipam show --ip={address}",
		},
		OnlyIf: []probe.Conditional{
			{If: "no pod has the address, and the interface's name begins with cali",
				Manifest: []string{"ssh {node} sudo ip link delete {device}"}},
			{If: "a pod that lives has it: make that pod anew, it has lost its address in IPAM (POD, NAMESPACE)",
				Manifest: []string{"kubectl delete pod -n NAMESPACE POD"}},
			{If: "the interface is another program's: its addresses must not lie in the pool",
				Manifest: []string{"kubectl get ippools.crd.projectcalico.org -o custom-columns=NAME:.metadata.name,CIDR:.spec.cidr"}},
		},
		Radius: "reading changes nothing; deleting an interface cuts off whatever is behind it, and nothing else",
	},
	RuledOut: []string{cni.CNIConfig.ID, cni.CNIToken.ID, cni.CNINodename.ID},
	Explains: []string{"cni-plugin-fails"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		pods := diagnose.Keep(evidence.WaitingPods(f, facts.StartsCNI), func(r diagnose.Finding) bool {
			return r.Facts.Str(facts.Obstacle) == facts.ObstacleAddressHeld
		})
		if len(pods) == 0 {
			return nil
		}
		says, address, device := pods[0].Facts.Str(facts.Message), pods[0].Facts.Str(facts.ObstacleAt), ""
		if m := heldBy.FindStringSubmatch(says); m != nil {
			device = m[1]
		}
		c := diagnose.Case{
			About: address, For: evidence.Said(pods), Covers: evidence.PodsUnconnected,
			Args: map[string]diagnose.Arg{"address": diagnose.AddressArg(address), "device": diagnose.DeviceArg(device)},
			Says: fmt.Sprintf("IPAM gives %s to a new pod of {node}, and a route to it leads by another interface", address),
		}
		if device != "" {
			c.Says += " (" + device + ")"
		}
		c.Says += ": " + says
		return []diagnose.Case{c}
	},
}
