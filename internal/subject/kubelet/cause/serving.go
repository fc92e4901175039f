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
func kubeletServing(f diagnose.Findings) []diagnose.Case {
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
}

var badServing = &probe.Fix{
	Says: "See whose certificate it is and what is wrong with it: its CA, its dates, or its names; have the kubelet get a new one.",
	Manifest: []string{"kubectl get --raw /api/v1/nodes/{node}/proxy/healthz  # the API server's own words",
		"ssh {node} 'sudo openssl x509 -noout -subject -issuer -dates -ext subjectAltName -in /var/lib/kubelet/pki/kubelet.crt; sudo ls -l /var/lib/kubelet/pki'"},
	OnlyIf: []probe.Conditional{{If: "it signs for itself (serverTLSBootstrap is off) and its certificate has expired or lacks an address",
		Manifest: []string{"ssh {node} 'sudo mv /var/lib/kubelet/pki/kubelet.crt /var/lib/kubelet/pki/kubelet.key /root/ && sudo systemctl restart {kubelet}'"}}},
	Radius: "reading changes nothing; a kubelet that starts anew leaves its pods running",
}
