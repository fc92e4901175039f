package cause

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// kubeletLives are what only a kubelet that works can have done: a session with a probe that leads through
// it (pod, ephemeral, exec) and did not break off, its own word that it cannot ask the API server, and an
// answer to another node.
func kubeletLives(f diagnose.Findings) []diagnose.Finding {
	through := diagnose.Keep(diagnose.Good(f, probe.CheckPlaced), func(r diagnose.Finding) bool {
		broke := func(a diagnose.Finding) bool { return a.Way == r.Way && a.Status != probe.OK }
		return slices.Contains([]string{"pod", "ephemeral", "exec"}, r.Way) &&
			!slices.ContainsFunc(f.Of(probe.CheckAnswered), broke)
	})
	return slices.Concat(evidence.NotPlaced(f, facts.ReasonUnasked), through,
		speaks(evidence.FromOutside(f, evidence.KubeletPort).Open, true))
}

// speaks are the open ports where a request was answered, or was not.
func speaks(open []diagnose.Finding, answered bool) []diagnose.Finding {
	return diagnose.Keep(open, func(r diagnose.Finding) bool { return r.Facts[link.FactSpeaks] == answered })
}

// pendingCertificate finds the request for a new certificate of the kubelet.
const pendingCertificate = "kubectl get csr | grep {node}  # one that is Pending: kubectl certificate approve NAME"

// kubeadmCertificate makes a new certificate of the kubelet where it cannot request one.
var kubeadmCertificate = probe.Conditional{
	If: "the certificate has expired, no request is pending, and this is a control plane node of a cluster that kubeadm made; the file belongs to /etc/kubernetes/kubelet.conf of {node}",
	Manifest: []string{
		"ssh {node} sudo kubeadm kubeconfig user --org system:nodes --client-name system:node:{node} > kubelet.conf"},
}

// whyKubeletDead is the fix of a kubelet that is seen from outside only: the three commonest reasons, each with its
// check, and the run that sees them.
var whyKubeletDead = &probe.Fix{
	Says: "Check the three commonest reasons on the node: swap is on, the client certificate has expired, the configuration has an error. A run by ssh reads all three: it needs an ssh login on {node} with sudo.",
	Manifest: []string{
		"calico-probe run --node {node} --via ssh  # with --ssh-config FILE where 'ssh {node}' needs one",
		`ssh {node} "swapon --show; grep -n failSwapOn /var/lib/kubelet/config.yaml"  # swap: any output of swapon, without failSwapOn: false`,
		"ssh {node} sudo openssl x509 -noout -enddate -in /var/lib/kubelet/pki/kubelet-client-current.pem  # certificate: notAfter is past",
		`ssh {node} "sudo journalctl -u {kubelet} -n 200 --no-pager | grep -E 'command failed|Failed to run kubelet|unknown flag|failed to (load|validate)'"  # configuration: the last line names the setting`,
	},
	OnlyIf: []probe.Conditional{
		{If: "swap is on", Manifest: swapOff},
		{If: "the certificate has expired", Manifest: []string{pendingCertificate}},
		kubeadmCertificate,
		{If: "a new certificate is on {node}, the configuration is corrected, or none of the three is the reason",
			Manifest: []string{"ssh {node} sudo systemctl restart {kubelet}"}},
	},
	Radius: "checks change nothing; restarting the kubelet and swapoff touch this node only, running pods stay{together}",
}
