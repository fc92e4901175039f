package cause

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// kubeletAuthority is kubernetes/kubernetes#40067.
var kubeletAuthority = &diagnose.Rule{
	ID: "kubelet-authority", Layer: diagnose.LayerKubelet, Title: "the kubelet rejects the API server's certificate",
	Doc: `The kubelet's kubeconfig names an API server and the CA that its certificate has to be of. Where the cluster's CA was made anew and this node kept the old one, the file is another cluster's, the server's address changed to one that is not in its certificate, or that certificate expired, the kubelet ends every connection itself: "x509: certificate signed by unknown authority", "certificate is valid for ..., not ...". A kubelet that runs keeps its connections, so it shows at its next start. The node is then NotReady with everything on it well.
Told from a cut network by the handshake, which the probe makes as the kubelet does; from the kubelet's own certificate, which the server refuses, by who refuses.`,
	Fix: probe.Fix{
		Says: "Compare the CA in the kubelet's kubeconfig with the cluster's, and put the cluster's there; where the server's name or time is wrong, its certificate is what has to be renewed.",
		Manifest: []string{
			"kubectl -n kube-system get configmap kube-root-ca.crt -o jsonpath='{.data.ca\\.crt}' | openssl x509 -noout -fingerprint -subject -dates",
			"ssh {node} \"sudo grep -o 'certificate-authority-data: .*' /etc/kubernetes/kubelet.conf | cut -d' ' -f2 | base64 -d | sudo openssl x509 -noout -fingerprint -subject -dates\"",
			"ssh {node} 'sudo grep -e server: -e certificate-authority: /etc/kubernetes/kubelet.conf; date -u'",
		},
		OnlyIf: []probe.Conditional{
			{If: "kubeadm made the cluster, the two differ, and the cluster's is right; the file belongs to /etc/kubernetes/kubelet.conf of {node}",
				Manifest: []string{"# on a control plane node: 'sudo kubeadm kubeconfig user --org system:nodes --client-name system:node:{node} > kubelet.conf'"}},
			{If: "the file is right now", Manifest: []string{"ssh {node} sudo systemctl restart {kubelet}"}},
		},
		Radius: "looking touches nothing; a kubelet that starts does not restart running pods{together}",
	},
	Apart: true, RuledOut: []string{host.NodeClock.ID, datastore.DatastoreLatency.ID},
	Explains: []string{"kubelet-dead", "kubelet-silent", "kubelet-cut-off", "kubelet-refused"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		refused := diagnose.Keep(f.Failed(kubelet.KubeletHealth.ID), diagnose.About(kubelet.TargetAuthority))
		says := slices.Concat(evidence.ServiceWrites(f, logs.ServiceKubelet, logs.SaysAuthority),
			evidence.ServiceEnds(f, logs.ServiceKubelet, logs.SaysAuthority))
		lease := f.Failed(facts.CheckNodeLease)
		if len(refused) == 0 && (len(says) == 0 || len(lease) == 0) {
			return nil
		}
		c := diagnose.Case{
			For:    slices.Concat(diagnose.Suggests(refused), diagnose.Suggests(says), diagnose.Shows(lease)),
			Covers: evidence.KubeletGone,
			// It may have started with another file, and a clock that is wrong makes every certificate look bad.
			Against: slices.Concat(diagnose.Hints(diagnose.Good(f, facts.CheckNodeLease)),
				diagnose.Suggests(f.Failed(host.NodeClock.ID))),
		}
		if len(refused) > 0 && len(lease) > 0 {
			c.For[0].Weight = diagnose.Proof
		}
		c.Says = "the kubelet on {node} does not accept the API server's certificate: "
		if len(refused) > 0 {
			c.Says += refused[0].Saw
		} else {
			c.Says += says[0].Saw
		}
		if len(lease) == 0 {
			c.Says += "; it still reports, and will not after its next start"
		}
		return []diagnose.Case{c}
	},
}
