package diagnose

import (
	"fmt"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
)

// cniKubeconfigWrong is a kubeconfig of the CNI plugin that leads to no API server, or to one that it cannot trust.
var cniKubeconfigWrong = &Rule{
	ID: "cni-kubeconfig-wrong", Layer: LayerCalico, Title: "the CNI plugin's kubeconfig leads to no API server that it can use",
	Doc: `calico-node writes the API server's URL and authority into calico-kubeconfig, and Calico's CNI plugin uses them for each new pod. A file that was restored from a backup, or that came from another cluster, names an old server or another authority. Then no new pod gets a network ("error getting ClusterInformation: ... dial tcp", or "x509: certificate signed by unknown authority"), while the kubelet, calico-node and running pods work.
Told from an API server that is down, and from a node that is cut off, by the node's own connections to the API servers, which work.`,
	Fix: probe.Fix{
		Says: "Compare the server in the file with the cluster's, then let calico-node write the file again: it does so at its start, with the server and the authority that it uses itself.",
		Manifest: []string{"ssh {node} \"sudo grep -e ' server:' {file}\"",
			"kubectl get endpointslices -n default -l kubernetes.io/service-name=kubernetes",
			"kubectl -n {namespace} get configmap kubernetes-services-endpoint --ignore-not-found -o jsonpath='{.data}'"},
		OnlyIf: []probe.Conditional{{If: "the servers or the authorities differ", Manifest: []string{restartCalico}}},
		Radius: "reading changes nothing; " + restartRadius,
	},
	RuledOut: []string{checks.DatastoreLatency.ID, checks.CNIToken.ID},
	Explains: []string{"cni-plugin-fails"},
	Match: func(f Findings) []Case {
		failed, reached := f.Failed(checks.CNIServer.ID), good(f, checks.DatastoreLatency.ID)
		if len(failed) == 0 || len(reached) == 0 {
			return nil
		}
		r := failed[0]
		file, server := r.Facts.Str(checks.FactFile), r.Facts.Str(checks.FactServer)
		c := Case{For: append(clues(proof, failed), clues(hint, reached[:1])...), Covers: podsUnconnected,
			Args: map[string]Arg{"file": fileArg(file)}}
		switch reasonOf(r) {
		case checks.ReasonAuthority, checks.ReasonName, checks.ReasonExpired:
			c.Says = fmt.Sprintf("no new pod gets a network on {node}: the CNI plugin does not trust %s by the authority in %s: %s",
				server, file, r.Saw)
		default:
			c.Says = fmt.Sprintf("no new pod gets a network on {node}: %s names %s as API server, and the node gets no connection there "+
				"(%s); the cluster's API server is %s, and it answers", file, server, r.Saw, reached[0].Facts.Str(checks.FactAddress))
		}
		return []Case{c}
	},
}
