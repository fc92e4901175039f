package api

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// needAPI are the k8s-app labels of system pods that need the API server.
var needAPI = []string{"kube-dns", "calico-kube-controllers", "calico-apiserver", "metrics-server"}

// apiPods are the cluster's pods that need the API server and have their own address: CoreDNS and
// calico-kube-controllers on any node, others on this one.
func apiPods(s *cluster.Snapshot) (out []*corev1.Pod) {
	seen := map[string]bool{}
	add := func(pods []corev1.Pod) {
		for i := range pods {
			p := &pods[i]
			own := p.Namespace == "kube-system" || slices.Contains(s.CalicoIn, p.Namespace)
			if own && cluster.OwnAddress(*p) && p.DeletionTimestamp == nil && !seen[cluster.NameOf(p)] &&
				slices.Contains(needAPI, p.Labels["k8s-app"]) {
				seen[cluster.NameOf(p)] = true
				out = append(out, p)
			}
		}
	}
	add(s.DNSServers.Value.Pods)
	add(s.Controllers.Value)
	add(s.Placed.Pods.Value)
	return out
}

// apiServers are the API server's endpoints. Policies see these, since kube-proxy translates the Service's address
// first.
func apiServers(s *cluster.Snapshot) (out netpolicy.End, port int) {
	for _, t := range s.API.Value {
		if t.Name != "endpoint" {
			out.Hinted = append(out.Hinted, t.Addr)
			continue
		}
		out.Addrs, port = append(out.Addrs, t.Addr), t.Port
	}
	out.Service = "default/kubernetes"
	return out, port
}

// apiPolicies finds system pods that policies block from the API server.
func apiPolicies(s *cluster.Snapshot, report func(probe.Result)) {
	to, port := apiServers(s)
	switch unknown := s.Policies.Unknown(); {
	case unknown != nil:
		report(probe.Found(probe.Info, "the effect of policies is unknown: %s", probe.OneLine(unknown.Error())))
		return
	case len(to.Addrs) == 0:
		report(probe.Found(probe.Skip, "no API server endpoint found"))
		return
	}
	pods := apiPods(s)
	var order []string
	by := map[string][]*corev1.Pod{}
	for _, p := range pods {
		from := netpolicy.EndOf(p)
		out := s.Policies.Sends(&netpolicy.Flow{Protocol: netpolicy.ProtocolTCP, Port: port, From: from, To: to})
		if !out.Denied() {
			continue
		}
		if by[out.By] == nil {
			order = append(order, out.By)
		}
		by[out.By] = append(by[out.By], p)
	}
	if len(by) == 0 {
		report(probe.Found(probe.OK, "no policy blocks %s of the cluster itself from the API server", cluster.Plural(len(pods), "pod")))
		return
	}
	for _, policy := range order[:min(len(order), apicheck.MaxPolicies)] {
		var names []string
		for _, p := range by[policy] {
			names = append(names, cluster.NameOf(p))
		}
		slices.Sort(names)
		report(probe.Found(probe.Fail, "the policy blocks these pods from the API server (TCP %d): %s", port, cluster.Few(names)).On(policy).
			With(facts.Policy, policy).With(facts.NamedPods, names[:min(len(names), apicheck.MaxPods)]))
	}
}
