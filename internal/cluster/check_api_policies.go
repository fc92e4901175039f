package cluster

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// needAPI are labels k8s-app of the cluster's own pods that cannot do without the API server.
var needAPI = []string{"kube-dns", "calico-kube-controllers", "calico-apiserver", "metrics-server"}

// apiPods are the pods of the cluster that need the API server and have an address of their own: CoreDNS and
// calico-kube-controllers on any node, others on this one.
func (s *Snapshot) apiPods() (out []*corev1.Pod) {
	seen := map[string]bool{}
	add := func(pods []corev1.Pod) {
		for i := range pods {
			p := &pods[i]
			own := p.Namespace == "kube-system" || slices.Contains(s.calicoIn, p.Namespace)
			if own && ownAddress(*p) && p.DeletionTimestamp == nil && !seen[nameOf(p)] &&
				slices.Contains(needAPI, p.Labels["k8s-app"]) {
				seen[nameOf(p)] = true
				out = append(out, p)
			}
		}
	}
	add(s.dnsServers.Value.pods)
	add(s.controllers.Value)
	add(s.placed.pods.Value)
	return out
}

// apiServers are the API server's endpoints, which policies see once kube-proxy has translated its Service.
func (s *Snapshot) apiServers() (out netpolicy.End, port int) {
	for _, t := range s.api.Value {
		if t.Name != "endpoint" {
			out.Hinted = append(out.Hinted, t.Addr)
			continue
		}
		out.Addrs, port = append(out.Addrs, t.Addr), t.Port
	}
	out.Service = "default/kubernetes"
	return out, port
}

// apiPolicies finds pods of the cluster itself that policies keep from the API server.
func apiPolicies(s *Snapshot, report func(probe.Result)) {
	to, port := s.apiServers()
	switch unknown := s.policiesUnknown(); {
	case unknown != nil:
		report(probe.Found(probe.Info, "what policies let out is not known: %s", probe.OneLine(unknown.Error())))
		return
	case len(to.Addrs) == 0:
		report(probe.Found(probe.Skip, "no endpoint of the API server is known"))
		return
	}
	pods := s.apiPods()
	var order []string
	by := map[string][]*corev1.Pod{}
	for _, p := range pods {
		from := endOf(p)
		out := s.policies.Sends(&netpolicy.Flow{Protocol: netpolicy.ProtocolTCP, Port: port, From: from, To: to})
		if !out.Denied() {
			continue
		}
		if by[out.By] == nil {
			order = append(order, out.By)
		}
		by[out.By] = append(by[out.By], p)
	}
	if len(by) == 0 {
		report(probe.Found(probe.OK, "no policy keeps any of %s of the cluster itself from the API server", plural(len(pods), "pod")))
		return
	}
	for _, policy := range order[:min(len(order), policiesTold)] {
		var names []string
		for _, p := range by[policy] {
			names = append(names, nameOf(p))
		}
		slices.Sort(names)
		report(probe.Found(probe.Fail, "it denies them the API server (TCP %d): %s", port, few(names)).On(policy).
			With(facts.Policy, policy).With(facts.NamedPods, names[:min(len(names), podsTold)]))
	}
}

// endOf is a pod as policies see it.
func endOf(p *corev1.Pod) netpolicy.End {
	out := netpolicy.End{Namespace: p.Namespace, Labels: netpolicy.LabelsOf(p), Ports: portNames(p)}
	for _, ip := range p.Status.PodIPs {
		if addr, err := netip.ParseAddr(strings.TrimSpace(ip.IP)); err == nil {
			out.Addrs = append(out.Addrs, addr)
		}
	}
	return out
}
