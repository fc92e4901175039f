package cause

import (
	"regexp"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// What the API server says of the kubelet's TLS: the kubelet has no certificate to show, or one that the API server
// does not take.
var (
	saysNoServing  = regexp.MustCompile(`remote error: tls: internal error`)
	saysBadServing = regexp.MustCompile(`x509: |tls: failed to verify certificate`)
)

// kubeletServing is kubernetes/kubernetes#73356.
var kubeletServing = &diagnose.Rule{
	ID: "kubelet-serving-certificate", Layer: diagnose.LayerKernel,
	Title: "the API server rejects the kubelet's serving certificate",
	Doc: `With serverTLSBootstrap the kubelet asks for the certificate of its own port by a CertificateSigningRequest (signer kubernetes.io/kubelet-serving), which nobody approves by himself: until somebody does it ends every connection with "tls: internal error". Or it shows a certificate, and the API server, started with --kubelet-certificate-authority, does not take it: of another CA, expired, or without the address that is dialled. kubectl logs, exec, attach and port-forward fail for this node's pods and metrics are missing, while the node is Ready and pods start.
Told from a port that is blocked by the connection, which opens; from another program at that port by the words.`,
	Fix: probe.Fix{
		Says:     "See whether the kubelet's request for a certificate waits, and approve it if it is that node's.",
		Manifest: []string{"kubectl get csr --sort-by=.metadata.creationTimestamp | grep -e kubelet-serving -e NAME | grep -e {node} -e NAME"},
		OnlyIf: []probe.Conditional{{If: "a request of system:node:{node} is Pending, and its names and addresses are that node's (kubectl describe csr)",
			Manifest: []string{"kubectl certificate approve CSR  # its name, as shown above"}}},
		Radius: "reading changes nothing; approving gives that kubelet a certificate for its own port",
	},
	RuledOut: []string{facts.CheckNodeLease, facts.CheckNodeReady},
	Explains: []string{"kubelet-port-blocked"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		for _, r := range evidence.NotPlaced(f, facts.ReasonAttach) {
			switch {
			case saysNoServing.MatchString(r.Saw):
				return []diagnose.Case{{For: diagnose.Proves([]diagnose.Finding{r}),
					Says: "the kubelet of {node} has no certificate for its own port, so kubectl logs and exec fail: its request for one was not approved, or not answered"}}
			case saysBadServing.MatchString(r.Saw):
				return []diagnose.Case{{For: diagnose.Suggests([]diagnose.Finding{r}), Fix: badServing,
					Says: "the API server does not take the certificate that is shown at the kubelet's port of {node}: " + r.Saw}}
			}
		}
		return nil
	},
}

var badServing = &probe.Fix{
	Says: "See whose certificate it is and what is wrong with it: its CA, its dates, or its names; have the kubelet get a new one.",
	Manifest: []string{"kubectl get --raw /api/v1/nodes/{node}/proxy/healthz  # the API server's own words",
		"ssh {node} 'sudo openssl x509 -noout -subject -issuer -dates -ext subjectAltName -in /var/lib/kubelet/pki/kubelet.crt; sudo ls -l /var/lib/kubelet/pki'"},
	OnlyIf: []probe.Conditional{{If: "it signs for itself (serverTLSBootstrap is off) and its certificate has expired or lacks an address",
		Manifest: []string{"ssh {node} 'sudo mv /var/lib/kubelet/pki/kubelet.crt /var/lib/kubelet/pki/kubelet.key /root/ && sudo systemctl restart {kubelet}'"}}},
	Radius: "reading changes nothing; a kubelet that starts anew leaves its pods running",
}
