package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
)

// peerNodePorts is another node's trouble with services, felt from here.
var peerNodePorts = &diagnose.Rule{
	ID: "peer-nodeports", Layer: diagnose.LayerPaths, Symptom: true,
	Title: "another node does not answer at its node ports; others do",
	Doc:   `A node port is served by the node it is asked at: by kube-proxy's rules there, and from there by the way to the pods. Where one node's own addresses fail and the same service answers at others, what is broken is on that node. Told from a node that is down by its answer to a ping, from a service without pods by the nodes that do answer.`,
	Fix: probe.Fix{
		Says: "Repair services on {other}: check its kube-proxy first, which answers its node ports.",
		Manifest: []string{"calico-probe run --node {other} --checks service",
			"kubectl -n kube-system get pods -l k8s-app=kube-proxy -o wide --field-selector spec.nodeName={other}"},
		Radius: evidence.OnlyReads,
	},
	RuledOut: []string{service.KubeProxyHealth.ID, service.ServiceClusterIP.ID, link.NodePing.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
		all := f.Of(service.ServiceNodePort.ID)
		good := diagnose.Keep(all, func(r diagnose.Finding) bool { return r.Status == probe.OK })
		var out []diagnose.Case
		for _, peer := range peersOf(diagnose.Keep(all, func(r diagnose.Finding) bool { return r.Status == probe.Fail })) {
			theirs := func(r diagnose.Finding) bool { return diagnose.NodeOf(r) == peer }
			failed := diagnose.Keep(all, func(r diagnose.Finding) bool { return theirs(r) && r.Status == probe.Fail })
			pinged := diagnose.Keep(f.Of(link.NodePing.ID), func(r diagnose.Finding) bool {
				return theirs(r) &&
					r.Status == probe.OK
			})
			if peer == f.Node || len(diagnose.Keep(good, theirs)) > 0 || len(good) == 0 || len(pinged) == 0 {
				continue
			}
			out = append(out, diagnose.Case{
				About: peer, Peer: peer, Args: map[string]diagnose.Arg{"other": diagnose.NodeArg(peer)},
				Says: fmt.Sprintf("node ports do not answer at %s's own addresses, and the same service answers at others: services do not work on %s", peer, peer),
				For:  append(diagnose.Suggests(failed), diagnose.Shows(good[:1], pinged[:1])...),
			})
		}
		return out
	},
}

// peersOf are the nodes some findings are about, once each.
func peersOf(fs []diagnose.Finding) []string {
	seen := map[string]bool{}
	var out []string
	for _, r := range fs {
		if peer := diagnose.NodeOf(r); peer != "" && !seen[peer] {
			seen[peer] = true
			out = append(out, peer)
		}
	}
	return out
}
