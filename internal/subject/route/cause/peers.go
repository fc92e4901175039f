package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
)

// touched are the results that prove that a node answers something.
func touched(f diagnose.Findings, node string) []diagnose.Finding {
	var out []diagnose.Finding
	for _, check := range []string{bgp.BGPPort.ID, pod.PodPing.ID, pod.PodTCP.ID, service.ServiceNodePort.ID} {
		out = append(out, diagnose.Keep(f.Of(check), func(r diagnose.Finding) bool {
			_, sent := r.Facts[probe.FactSource]
			return diagnose.NodeOf(r) == node && (r.Status == probe.OK && (check != bgp.BGPPort.ID || sent) ||
				diagnose.IsBad(r.Status) &&
					diagnose.ReasonOf(r) == "refused")
		})...)
	}
	return out
}

// unanswered are TCP connections to a node, or to its pods, that got no answer.
func unanswered(f diagnose.Findings, node string) []diagnose.Finding {
	var out []diagnose.Finding
	for _, check := range []string{bgp.BGPPort.ID, pod.PodTCP.ID, service.ServiceNodePort.ID} {
		out = append(out, diagnose.Keep(f.Bad(check), func(r diagnose.Finding) bool {
			return diagnose.NodeOf(r) == node && r.From == "" && (diagnose.ReasonOf(r) == "timeout" ||
				diagnose.ReasonOf(r) == "host-unreachable")
		})...)
	}
	return out
}

// bringBack is the fix of a node of which the API server has not heard either.
var bringBack = &probe.Fix{
	Says: "Bring {other} back; or if its machine is gone for good delete its Node.",
	Manifest: []string{"kubectl describe node {other}",
		"kubectl -n kube-node-lease get lease {other} -o jsonpath='{.spec.renewTime}'"},
	OnlyIf: []probe.Conditional{
		{If: "the machine of {other} is gone for good", Manifest: []string{"kubectl delete node {other}"}},
	},
	Radius: "reading changes nothing. Deleting the Node takes its pods out of the API, frees their addresses and takes the peer out of every BIRD",
}

// offLink is the fix of a node that does not even say which MAC address it has.
var offLink = &probe.Fix{
	Says: "See whether the machine of {other} is on, and whether it is on the same link as {node}: switch port, VLAN, virtual switch, bond.",
	Manifest: []string{"kubectl describe node {other}", "ssh {node} ip neigh show {address}",
		"calico-probe run --node {other}"},
	Radius: "a probe on the other node; the others only read",
}

// noNeighbour tells whether a node that was pinged did not even answer ARP or NDP.
func noNeighbour(pings []diagnose.Finding) bool {
	return slices.ContainsFunc(pings, func(r diagnose.Finding) bool { return diagnose.ReasonOf(r) == "host-unreachable" })
}

// peerDown is another node that answers nothing.
func peerDown(f diagnose.Findings) []diagnose.Case {
	silent, lives, seen := evidence.Pinged(f)
	if len(lives) == 0 && len(silent) > 1 {
		return nil // it is this node, or pings are forbidden
	}
	var out []diagnose.Case
	for _, node := range silent {
		_, address, _ := strings.Cut(seen[node][0].Target, " ")
		c := diagnose.Case{About: node, Args: map[string]diagnose.Arg{"other": diagnose.NodeArg(node),
			"address": diagnose.AddressArg(address)},
			For: diagnose.Suggests(seen[node]), Peer: node, Against: diagnose.Suggests(touched(f, node)),
			Covers: evidence.PathFollows(f, 0, node)}
		c.Says = fmt.Sprintf("%s does not answer from {node}", node)
		if noNeighbour(seen[node]) {
			c.Says = fmt.Sprintf("%s gives {node} no answer to ARP or NDP", node)
			c.Fix = offLink
		}
		theirs := diagnose.Keep(f.All, func(r diagnose.Finding) bool {
			return r.Node == f.Node && diagnose.NodeOf(r) == node && r.Facts.Str(probe.FactNodeState) != ""
		})
		up := diagnose.Keep(f.Of(bgp.BGPSession.ID), func(r diagnose.Finding) bool {
			return diagnose.NodeOf(r) == node &&
				r.Status == probe.OK
		})
		// Where a network lets no ping through, TCP answers still. Without the API's word
		// both may come of a firewall between the two.
		more := 0
		switch {
		case len(theirs) > 0 && theirs[0].Facts.Str(probe.FactNodeState) == probe.NodeSilent:
			more, c.Fix = diagnose.Hint, bringBack
			c.For = append(c.For, diagnose.Hints(theirs[:1])...)
			c.Says += ", and its kubelet is silent: powered off, cut off, or taken away with its Node left behind"
		case len(theirs) > 0: // its kubelet says so itself
			c.Against = append(c.Against, diagnose.Hints(theirs[:1])...)
			c.Says += fmt.Sprintf(", while its kubelet still speaks and the API calls it %s",
				theirs[0].Facts.Str(probe.FactNodeState))
		case len(lives) > 0:
			c.Says += ", while other nodes do"
		}
		if len(up) > 0 { // which outlive a death by minutes
			more = diagnose.Hint
			c.Against = append(c.Against, diagnose.Hints(up)...)
		}
		c.For = append(c.For, diagnose.Clues(more, unanswered(f, node))...)
		out = append(out, c)
	}
	return out
}

// nodeCutOff is this node, which reaches no other.
func nodeCutOff(f diagnose.Findings) []diagnose.Case {
	silent, lives, seen := evidence.Pinged(f)
	if len(lives) > 0 || len(silent) == 0 || f.Fine(datastore.DatastoreLatency.ID) {
		return nil
	}
	c := diagnose.Case{Says: fmt.Sprintf("{node} reaches none of %d other nodes", len(silent)),
		Covers: append(evidence.PathFollows(f, 0, ""), diagnose.Covers(datastore.DatastoreLatency.ID,
			datastore.TyphaReach.ID)...)}
	for _, node := range silent {
		c.For = append(c.For, diagnose.Shows(seen[node][:1])...)
		c.Against = append(c.Against, diagnose.Suggests(touched(f, node))...)
	}
	c.For[0].Weight = diagnose.Hint
	if lost := f.Bad(datastore.DatastoreLatency.ID); diagnose.AllBad(f.Of(datastore.DatastoreLatency.ID)) {
		c.For = append(c.For, diagnose.Suggests(lost)...)
	}
	return []diagnose.Case{c}
}

// peerPods is a fault of another node's, as this one feels it.
func peerPods(f diagnose.Findings) []diagnose.Case {
	if !f.Fine(route.RouteBlocks.ID) {
		return nil
	}
	_, lives, seen := evidence.Pinged(f)
	pods := map[string][]diagnose.Finding{}
	answer := map[string]bool{} // nodes some of whose pods do, in a family
	for _, r := range f.Of(pod.PodPing.ID) {
		switch node := diagnose.NodeOf(r); {
		case r.From != "" || node == "" || node == f.Node:
		case r.Status == probe.Fail && diagnose.ReasonOf(r) == "":
			pods[node] = append(pods[node], r)
		case r.Status == probe.OK:
			answer[node+diagnose.FamilyName(diagnose.FamilyOf(r))] = true
		}
	}
	var out []diagnose.Case
	for _, node := range lives {
		lost := pods[node]
		down := diagnose.Keep(f.Bad(bgp.BGPSession.ID), func(r diagnose.Finding) bool { return diagnose.NodeOf(r) == node })
		if len(lost) == 0 || len(down) > 0 || answer[node+diagnose.FamilyName(diagnose.FamilyOf(lost[0]))] {
			continue
		}
		of := diagnose.Keep(seen[node],
			func(r diagnose.Finding) bool { return diagnose.FamilyOf(r) == diagnose.FamilyOf(lost[0]) })
		if len(of) > 0 && !slices.ContainsFunc(of, evidence.Arrived) { // it answers in the other family alone
			continue
		}
		out = append(out, diagnose.Case{
			About: node, Peer: node, Family: diagnose.FamilyOf(lost[0]),
			Args:   map[string]diagnose.Arg{"other": diagnose.NodeArg(node)},
			For:    append(diagnose.Suggests(lost), diagnose.Shows(of)...),
			Covers: evidence.PathFollows(f, diagnose.FamilyOf(lost[0]), node),
			Says:   fmt.Sprintf("%s answers a ping and none of its pods does, while {node} has the routes there: the fault is on %s or between", node, node),
		})
	}
	return out
}
