package diagnose

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// kubeletSays is what the kubelet answered on its own ports, on the node.
type kubeletSays struct{ ok, refused, silent, ill []Finding }

func kubeletHere(f Findings) kubeletSays {
	var k kubeletSays
	for _, r := range f.Of(kubelet.KubeletHealth.ID) {
		_, answered := r.Facts.Num(probe.FactCode)
		switch {
		case r.Target == kubelet.TargetCertificate, r.Target == kubelet.TargetAuthority, r.Target == kubelet.TargetState:
		case r.Status == probe.OK:
			k.ok = append(k.ok, r)
		case r.Status != probe.Fail:
		case answered:
			k.ill = append(k.ill, r)
		case reasonOf(r) == "refused":
			k.refused = append(k.refused, r)
		default:
			k.silent = append(k.silent, r)
		}
	}
	return k
}

func (k kubeletSays) answered() bool { return len(k.ok)+len(k.refused)+len(k.silent)+len(k.ill) > 0 }

// dead is when every port refuses: one alone may be turned off.
func (k kubeletSays) dead() bool {
	return len(k.refused) > 0 && len(k.ok)+len(k.silent)+len(k.ill) == 0
}

// kubeletLives are what only a kubelet that works can have done: a session with a probe that leads through
// it (pod, ephemeral, exec) and did not break off, its own word that it cannot ask the API server, and an
// answer to another node.
func kubeletLives(f Findings) []Finding {
	through := keep(good(f, probe.CheckPlaced), func(r Finding) bool {
		broke := func(a Finding) bool { return a.Way == r.Way && a.Status != probe.OK }
		return slices.Contains([]string{"pod", "ephemeral", "exec"}, r.Way) &&
			!slices.ContainsFunc(f.Of(probe.CheckAnswered), broke)
	})
	return slices.Concat(notPlaced(f, facts.ReasonUnasked), through, speaks(fromOutside(f, kubeletPort).open, true))
}

// speaks are the open ports where a request was answered, or was not.
func speaks(open []Finding, answered bool) []Finding {
	return keep(open, func(r Finding) bool { return r.Facts[link.FactSpeaks] == answered })
}

const (
	kubeletPort = 10250
	anyPort     = 0
)

// reached is what neighbours got from this node.
type reached struct{ open, refused, silent []Finding }

func fromOutside(f Findings, port float64) reached {
	var out reached
	for _, r := range f.Elsewhere(link.NeighbourReach.ID) {
		if asked, _ := r.Facts.Num(probe.FactPort); !strings.HasPrefix(r.Target, f.Node+" ") || port != anyPort &&
			asked != port {
			continue
		}
		switch {
		case r.Status == probe.OK:
			out.open = append(out.open, r)
		case r.Status != probe.Fail:
		case probe.SomebodyAnswered(reasonOf(r)):
			out.refused = append(out.refused, r)
		default:
			out.silent = append(out.silent, r)
		}
	}
	return out
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
