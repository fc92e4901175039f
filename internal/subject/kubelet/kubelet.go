// Package kubelet declares the check of the kubelet, and the facts it reports. Both binaries link it. Checks is the
// entry point. The package connects to nothing itself: package ask beside it does so on the node, package api reads the
// Node object, and package cause draws the conclusions. Package suite draws the whole flow.
package kubelet

import (
	"github.com/calico-probe/calico-probe/probe"
)

// Checks returns the checks of this subject in display order.
func Checks() []*probe.Check {
	return []*probe.Check{KubeletHealth}
}

// TargetAuthority is the target of the result about the CA in the kubelet's kubeconfig.
const TargetAuthority = "API server"

// KubeletHealth queries the kubelet on both its ports. The API only shows that the kubelet stopped reporting, forty
// seconds late (node-monitor-grace-period).
var KubeletHealth = &probe.Check{
	ID: probe.CheckKubeletHealth, From: probe.FromNode,
	Tags:   []string{probe.TagRuntime},
	Access: []string{"host network", "proc", "var/lib/kubelet", "etc/kubernetes/kubelet.conf"},
}

// TargetCertificate is the target of the result about the kubelet's client certificate.
const TargetCertificate = "client certificate"

// FactBound is the kubelet's listen address for the API server, if that is a loopback address.
const FactBound probe.Fact = "bound"

// TargetState is the target of the result about the state files of the kubelet's CPU and memory managers.
const TargetState = "saved state"
