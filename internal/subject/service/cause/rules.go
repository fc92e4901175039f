// Package cause has the causes of Services and kube-proxy: what each looks like in the findings of a run, and its fix.
// The client alone links it.
package cause

import "github.com/calico-probe/calico-probe/internal/diagnose"

// Rules are the causes of this subject.
var Rules = []*diagnose.Rule{
	serviceTakesPort, strayEndpoints, proxyForbidden, kubeProxyCutOff, kubeProxyRefused, kubeProxyOtherNode,
	masqueradedPods, kubeProxyEnds, dnsEnds, coreDNSCutOff, kubeProxyRulesLost, kubeProxyStuck, kubeProxyDead,
	servicePathBroken, serviceHijacked, foreignMasquerade, policyWithoutAPI, peerNodePorts,
}
