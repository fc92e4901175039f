package cluster

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// dnsPort is where servers answer that no endpoint names.
const dnsPort = 53

// nodeLocalDNS is the address that NodeLocal DNSCache has by its manifest.
var nodeLocalDNS = netip.AddrFrom4([4]byte{169, 254, 20, 10})

// dnsDestinations are the cluster's DNS servers as policies see them: the pod, after kube-proxy has translated the
// Service's address. Names are asked by UDP.
func (s *Snapshot) dnsDestinations() []destination {
	if s.dnsService == nil || len(s.dnsService.Spec.Selector) == 0 {
		return nil
	}
	also := append(InternalIPs(s.Node), nodeLocalDNS)
	for _, t := range s.dns {
		also = append(also, t.Addr)
	}
	selected := labels.SelectorFromSet(s.dnsService.Spec.Selector)
	var out []destination
	for i := range s.dnsServers.pods {
		p := &s.dnsServers.pods[i]
		addr, err := netip.ParseAddr(p.Status.PodIP)
		if err != nil || p.Namespace != s.dnsService.Namespace || !selected.Matches(labels.Set(p.Labels)) {
			continue
		}
		d := destination{protocol: protocolUDP, port: dnsPort, namespace: p.Namespace, labels: labelsOf(p),
			addrs: append([]netip.Addr{addr}, also...)}
		out = append(out, d)
		for _, t := range s.dns {
			if t.Addr == addr && t.Port != dnsPort {
				d.port = t.Port
				out = append(out, d)
			}
		}
	}
	return out
}

// letsOut is the first policy that lets a pod out to somebody whom it does not know by addresses, "" where none does.
func (p policies) letsOut(namespace string, with map[string]string) string {
	for _, one := range p.all {
		lets := func(r rule) bool { return r.action == "Allow" && !r.nets }
		if one.on(namespace, with) && slices.ContainsFunc(one.rules[probe.DeniesEgress], lets) {
			return one.name
		}
	}
	return ""
}

// withoutDNS names the policy that lets a pod out to others where no policy lets it out to any of the DNS servers, ""
// where that is not so, or not sure.
func (p policies) withoutDNS(pod *corev1.Pod, servers []destination) string {
	with := labelsOf(pod)
	for _, d := range servers {
		_, _, denied := p.ask(probe.DeniesEgress, func(one policy) bool { return one.on(pod.Namespace, with) },
			func(r rule) bool { return r.mayReach(d) })
		if !denied {
			return ""
		}
	}
	return p.letsOut(pod.Namespace, with)
}

// asksDNS tells whether a pod asks the cluster's DNS.
func asksDNS(p *corev1.Pod) bool {
	policy := cmp.Or(p.Spec.DNSPolicy, corev1.DNSClusterFirst)
	return ownAddress(*p) && p.DeletionTimestamp == nil &&
		(policy == corev1.DNSClusterFirst || policy == corev1.DNSClusterFirstWithHostNet)
}

// dnsPolicies finds pods of the node that policies let out to others and not to the DNS.
func dnsPolicies(s *Snapshot, report func(probe.Result)) {
	servers := s.dnsDestinations()
	switch unknown := errors.Join(s.policies.err, s.policies.other); {
	case s.placed.err != nil:
		report(unread(s.placed.err))
		return
	case len(servers) == 0:
		report(probe.Found(probe.Skip, "no pod of the cluster's DNS is known"))
		return
	case unknown != nil:
		report(probe.Found(probe.Info, "what policies let out is not known: %s", probe.OneLine(unknown.Error())))
		return
	}
	var held, by []string
	asked := 0
	byName := func(a, b corev1.Pod) int { return cmp.Compare(nameOf(&a), nameOf(&b)) }
	for _, one := range slices.SortedFunc(slices.Values(s.placed.running()), byName) {
		p := &one
		if !asksDNS(p) {
			continue
		}
		asked++
		if policy := s.policies.withoutDNS(p, servers); policy != "" {
			held = append(held, nameOf(p))
			if !slices.Contains(by, policy) {
				by = append(by, policy)
			}
		}
	}
	if len(held) == 0 {
		report(probe.Found(probe.OK, "of %s that ask the cluster's DNS none is surely kept from it by a policy that lets it out to others",
			plural(asked, "pod")))
		return
	}
	report(probe.Found(probe.Warn, "%s lets pods out to others, and nothing lets them out to the cluster's DNS by UDP: %s",
		few(by), few(held)).With(facts.Policy, by[0]).With(facts.NamedPods, few(held)))
}
