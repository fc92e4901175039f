package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// dnsDestinations are the cluster's DNS servers as policies see them: the pods, after kube-proxy has translated the
// Service's address. Names are asked by UDP. Servers with the same labels are one destination for each port.
func (s *Snapshot) dnsDestinations() []destination {
	if s.dnsErr != nil || s.dnsService == nil || len(s.dnsService.Spec.Selector) == 0 {
		return nil
	}
	also := InternalIPs(s.Node)
	for _, t := range s.dns {
		also = append(also, t.Addr)
	}
	selected := labels.SelectorFromSet(s.dnsService.Spec.Selector)
	var out []destination
	for i := range s.dnsServers.pods {
		p := &s.dnsServers.pods[i]
		if p.Namespace != s.dnsService.Namespace || !selected.Matches(labels.Set(p.Labels)) {
			continue
		}
		of := labelsOf(p)
		addrs, ports := s.answersAt(p)
		for _, port := range ports {
			same := func(d destination) bool { return d.port == port && maps.Equal(d.labels, of) }
			at := slices.IndexFunc(out, same)
			if at < 0 {
				at, out = len(out), append(out, destination{protocol: protocolUDP, port: port, namespace: p.Namespace,
					labels: of, addrs: slices.Clone(also)})
			}
			out[at].addrs = append(out[at].addrs, addrs...)
		}
	}
	return out
}

// answersAt are the addresses of a DNS server, and the ports that the DNS Service has for it, one 0 where it has none.
func (s *Snapshot) answersAt(p *corev1.Pod) (addrs []netip.Addr, ports []int) {
	for _, ip := range p.Status.PodIPs {
		addr, err := netip.ParseAddr(ip.IP)
		if err != nil {
			continue
		}
		addrs = append(addrs, addr)
		for _, t := range s.dns {
			if t.Addr == addr && !slices.Contains(ports, t.Port) {
				ports = append(ports, t.Port)
			}
		}
	}
	if len(ports) == 0 {
		ports = []int{0}
	}
	return addrs, ports
}

// withoutDNS names the policy that lets pods with these labels out to somebody whom it does not know by addresses,
// where no policy lets them out to any of the DNS servers; "" where that is not so, or not sure.
func (p policies) withoutDNS(namespace string, with map[string]string, servers []destination) string {
	lets := ""
	for _, d := range servers {
		holds := func(one policy) bool { return one.on(namespace, with) }
		_, _, denied := p.ask(probe.DeniesEgress, holds, func(one policy, r rule) bool {
			may := r.mayReach(d)
			if lets == "" && !may && r.action == "Allow" && !r.nets {
				lets = one.name
			}
			return may
		})
		if !denied {
			return ""
		}
	}
	return lets
}

// closed names the policy that surely lets no question in to any of the DNS servers by a protocol, from any sender; ""
// where one may be let in.
func (p policies) closed(servers []destination, protocol string) (by string) {
	for _, d := range servers {
		policy, _, denied := p.ask(probe.DeniesIngress,
			func(one policy) bool { return one.on(d.namespace, d.labels) },
			func(_ policy, r rule) bool { return r.mayBe(protocol, d.port) })
		if !denied || d.port == 0 {
			return ""
		}
		by = cmp.Or(by, policy)
	}
	return by
}

// asksDNS tells whether a pod asks the cluster's DNS.
func asksDNS(p *corev1.Pod) bool {
	policy := cmp.Or(p.Spec.DNSPolicy, corev1.DNSClusterFirst)
	return ownAddress(*p) && p.DeletionTimestamp == nil &&
		(policy == corev1.DNSClusterFirst || policy == corev1.DNSClusterFirstWithHostNet)
}

// keptFromDNS are the pods of the node that are let out to others and not to these servers, by the policy that lets
// them out, and how many were asked about.
func (s *Snapshot) keptFromDNS(servers []destination) (by map[string][]string, asked int) {
	by, known := map[string][]string{}, map[string]string{} // pods that are alike are asked about once
	for _, p := range s.placed.running() {
		if !asksDNS(&p) {
			continue
		}
		asked++
		with := labelsOf(&p)
		key := fmt.Sprint(p.Namespace, with) // maps are printed in order
		if _, done := known[key]; !done {
			known[key] = s.policies.withoutDNS(p.Namespace, with, servers)
		}
		if policy := known[key]; policy != "" {
			by[policy] = append(by[policy], nameOf(&p))
		}
	}
	return by, asked
}

// How many policies are told, and how many pods of each.
const (
	policiesTold = 10
	podsTold     = 20
)

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
	if policy := s.policies.closed(servers, protocolUDP); policy != "" {
		r := probe.Found(probe.Fail, "it selects the pods of the cluster's DNS, and no policy lets UDP %d in to them", servers[0].port)
		if s.policies.closed(servers, protocolTCP) == "" { // a cache on each node may send its questions by TCP
			r.Status = probe.Warn
			r.Saw += ", only TCP"
		}
		report(r.On(policy).With(facts.Policy, policy).With(facts.DNSPort, servers[0].port).With(facts.DNSClosed, true).
			With(facts.DNSNamespace, servers[0].namespace))
		return
	}
	by, asked := s.keptFromDNS(servers)
	if len(by) == 0 {
		report(probe.Found(probe.OK, "of %s that ask the cluster's DNS none is surely kept from it by a policy that lets it out to others",
			plural(asked, "pod")))
		return
	}
	names := slices.Sorted(maps.Keys(by))
	for _, policy := range names[:min(len(names), policiesTold)] {
		pods := by[policy]
		slices.Sort(pods)
		report(probe.Found(probe.Info, "it lets pods out to others, and nothing lets them out to the cluster's DNS by UDP: %s",
			few(pods)).On(policy).With(facts.Policy, policy).With(facts.NamedPods, pods[:min(len(pods), podsTold)]).
			With(facts.DNSPort, cmp.Or(servers[0].port, 53)))
	}
}
