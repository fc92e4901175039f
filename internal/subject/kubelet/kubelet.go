// Package kubelet names the checks of the kubelet, and the facts they report. Both binaries link it.
package kubelet

import (
	"github.com/calico-probe/calico-probe/probe"
)

// Checks are the checks of this subject, in the order in which they are shown.
func Checks() []*probe.Check {
	return []*probe.Check{KubeletHealth}
}

// TargetAuthority is what the result about the CA in the kubelet's kubeconfig is about.
const TargetAuthority = "API server"

// KubeletHealth asks the kubelet itself, on the two ports it has: the API only
// knows that it stopped reporting, forty seconds later.
var KubeletHealth = &probe.Check{
	ID: probe.CheckKubeletHealth, From: probe.FromNode,
	Tags:   []string{probe.TagRuntime},
	Access: []string{"host network", "proc", "var/lib/kubelet", "etc/kubernetes/kubelet.conf"},
}

// TargetCertificate is what the result about the kubelet's certificate is about.
const TargetCertificate = "client certificate"

// FactBound is the one address at which the kubelet answers the API server, where it is set to a loopback address.
const FactBound probe.Fact = "bound"

// CertificateExpired is the reason of a certificate that has run out.
const CertificateExpired = "expired"

// TargetState is the target of kubelet-health about what the kubelet's managers have saved.
const TargetState = "saved state"
