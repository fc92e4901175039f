package api

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// dnsDestinations are the cluster's DNS servers as policies see them: the pods, since kube-proxy translates the
// Service's address first. Queries use UDP. Servers with the same labels are one destination per port.
func dnsDestinations(s *cluster.Snapshot) []netpolicy.Destination {
	if s.DNS.Err != nil || s.DNS.Value.Service == nil || len(s.DNS.Value.Service.Spec.Selector) == 0 {
		return nil
	}
	also := cluster.InternalIPs(s.Node)
	for _, t := range s.DNS.Value.Targets {
		also = append(also, t.Addr)
	}
	selected := labels.SelectorFromSet(s.DNS.Value.Service.Spec.Selector)
	var out []netpolicy.Destination
	for i := range s.DNSServers.Value.Pods {
		p := &s.DNSServers.Value.Pods[i]
		if p.Namespace != s.DNS.Value.Service.Namespace || !selected.Matches(labels.Set(p.Labels)) {
			continue
		}
		of := netpolicy.LabelsOf(p)
		addrs, ports := addressesAndPorts(s, p)
		for _, port := range ports {
			same := func(d netpolicy.Destination) bool { return d.Port == port && maps.Equal(d.Labels, of) }
			at := slices.IndexFunc(out, same)
			if at < 0 {
				server := netpolicy.End{Namespace: p.Namespace, Labels: of, Ports: netpolicy.PortNames(p), Cached: true,
					Hinted:  also,
					Service: s.DNS.Value.Service.Namespace + "/" + s.DNS.Value.Service.Name}
				at, out = len(out), append(out, netpolicy.Destination{Protocol: netpolicy.ProtocolUDP, Port: port, End: server})
			}
			out[at].Addrs = append(out[at].Addrs, addrs...)
		}
	}
	if cachesDNS(s) {
		for i := range out {
			out[i].Also = also
		}
	}
	return out
}

// cachesDNS reports whether a pod on the node's network looks like a DNS cache on each node, which pods query instead
// of the servers.
func cachesDNS(s *cluster.Snapshot) bool {
	return s.Placed.Pods.Err != nil || slices.ContainsFunc(s.Placed.Pods.Value, func(p corev1.Pod) bool {
		name := strings.ReplaceAll(p.Name+" "+p.Labels["k8s-app"], "-", "")
		return p.Spec.HostNetwork && strings.Contains(name, "dns")
	})
}

// addressesAndPorts are the addresses of a DNS server, and the DNS Service's target ports there, or a single 0 without
// target ports.
func addressesAndPorts(s *cluster.Snapshot, p *corev1.Pod) (addrs []netip.Addr, ports []int) {
	for _, ip := range p.Status.PodIPs {
		addr, err := netip.ParseAddr(ip.IP)
		if err != nil {
			continue
		}
		at := 0 // ports of the Service at this address
		for _, t := range s.DNS.Value.Targets {
			if t.Addr == addr {
				at++
				if !slices.Contains(ports, t.Port) {
					ports = append(ports, t.Port)
				}
			}
		}
		if at > 0 || len(s.DNS.Value.Targets) == 0 { // clients get only addresses of the Service's family
			addrs = append(addrs, addr)
		}
	}
	if len(ports) == 0 {
		ports = []int{0}
	}
	return addrs, ports
}

// usesDNS reports whether a pod uses the cluster's DNS.
func usesDNS(p *corev1.Pod) bool {
	policy := cmp.Or(p.Spec.DNSPolicy, corev1.DNSClusterFirst)
	return cluster.OwnAddress(*p) && p.DeletionTimestamp == nil &&
		(policy == corev1.DNSClusterFirst || policy == corev1.DNSClusterFirstWithHostNet)
}

// blockedPods are pods that a policy blocks from the cluster DNS.
type blockedPods struct {
	netpolicy.WithoutDNS
	pods []string
}

// maxPodKinds is the maximum number of pod kinds for which policies are evaluated. Pods with equal labels are one kind,
// and a tenant can give each pod different labels.
const maxPodKinds = 40

// blockedDNS has the pods of a node that policies block from the cluster DNS.
type blockedDNS struct {
	by                      map[string]*blockedPods // by the policy
	judged, outside, beyond int                     // pods judged, pods judged outside the DNS namespace, pods skipped
}

// judgePods judges the pods of the node that use these servers. Namespaces take turns, so one with many kinds of
// pods does not use up the limit of the others.
func judgePods(s *cluster.Snapshot, servers []netpolicy.Destination) blockedDNS {
	out := blockedDNS{by: map[string]*blockedPods{}}
	known := map[string]netpolicy.WithoutDNS{} // pods of one kind are evaluated once
	for _, p := range roundRobin(slices.DeleteFunc(s.Placed.Running(), func(p corev1.Pod) bool { return !usesDNS(&p) })) {
		from := netpolicy.EndOf(&p)
		key := fmt.Sprint(p.Namespace, from.Labels) // fmt prints maps in sorted order
		if s.Policies.KnowsSenders() {
			key += fmt.Sprint(from.Addrs)
		}
		_, done := known[key]
		if !done && len(known) == maxPodKinds {
			out.beyond++
			continue
		}
		if !done {
			known[key] = s.Policies.WithoutDNS(from, servers)
		}
		out.judged++
		if p.Namespace != servers[0].Namespace {
			out.outside++
		}
		if policy := known[key].By; policy != "" {
			if out.by[policy] == nil {
				out.by[policy] = &blockedPods{WithoutDNS: known[key]}
			}
			out.by[policy].pods = append(out.by[policy].pods, cluster.NameOf(&p))
		}
	}
	return out
}

// roundRobin sorts pods so that the first pods of all namespaces precede the second pods.
func roundRobin(pods []corev1.Pod) []corev1.Pod {
	turns := map[string]int{}
	turn := make(map[string]int, len(pods))
	for i := range pods {
		turn[cluster.NameOf(&pods[i])] = turns[pods[i].Namespace]
		turns[pods[i].Namespace]++
	}
	slices.SortStableFunc(pods, func(a, b corev1.Pod) int { return turn[cluster.NameOf(&a)] - turn[cluster.NameOf(&b)] })
	return pods
}

// skippedNote reports how many pods were not judged, or returns "".
func (k *blockedDNS) skippedNote() string {
	if k.beyond == 0 {
		return ""
	}
	return fmt.Sprintf("; %s not evaluated: more than %d kinds of pods", cluster.Plural(k.beyond, "more pod"), maxPodKinds)
}

// dnsPolicies finds pods of the node that policies block from the cluster's DNS.
func dnsPolicies(s *cluster.Snapshot, report func(probe.Result)) {
	servers := dnsDestinations(s)
	switch unknown := s.Policies.Unknown(); {
	case s.Placed.Pods.Err != nil:
		report(apicheck.Unread(s.Placed.Pods.Err))
		return
	case len(servers) == 0:
		report(probe.Found(probe.Skip, "no cluster DNS pod was found"))
		return
	case unknown != nil:
		report(probe.Found(probe.Info, "the effect of policies is unknown: %s", probe.OneLine(unknown.Error())))
		return
	}
	if policy := s.Policies.Closed(servers, netpolicy.ProtocolUDP); policy != "" {
		r := probe.Found(probe.Fail, "the policy selects the cluster DNS pods, but no policy allows UDP %d to these pods", servers[0].Port)
		if s.Policies.Closed(servers, netpolicy.ProtocolTCP) == "" {
			r.Saw += ", only TCP"
			if cachesDNS(s) { // the cache may send its queries over TCP
				r.Status = probe.Warn
			}
		}
		report(r.On(policy).With(facts.Policy, policy).With(facts.DNSPort, servers[0].Port).With(facts.DNSClosed, true).
			With(facts.DNSNamespace, servers[0].Namespace))
		return
	}
	kept := judgePods(s, servers)
	if len(kept.by) == 0 {
		report(probe.Found(probe.OK, "no policy clearly blocks cluster DNS for any of %s that use it%s",
			cluster.Plural(kept.judged, "pod"), kept.skippedNote()))
		return
	}
	names := slices.Sorted(maps.Keys(kept.by))
	for _, policy := range names[:min(len(names), apicheck.MaxPolicies)] {
		one := kept.by[policy]
		slices.Sort(one.pods)
		r := one.result(kept.judged, kept.outside, servers[0].Namespace)
		r.Saw += kept.skippedNote()
		if r.Status == probe.Fail && one.How != netpolicy.DNSShut && strings.Contains(policy, "NetworkPolicy ") &&
			!strings.HasPrefix(policy, "GlobalNetworkPolicy ") {
			r.Status = probe.Warn // a tenant's policy on the tenant's own pods is not a fault of the node
		}
		if one.Set != "" {
			r = r.With(facts.BySet, one.Set)
		}
		if one.How == netpolicy.DNSShut && r.Status == probe.Fail {
			r = r.With(facts.DNSClosed, true)
		}
		report(r.On(policy).With(facts.Policy, policy).With(facts.DNSKept, one.How).
			With(facts.NamedPods, one.pods[:min(len(one.pods), apicheck.MaxPods)]).
			With(facts.DNSPort, cmp.Or(servers[0].Port, 53)).With(facts.DNSNamespace, servers[0].Namespace))
	}
}

// result judges how many pods a policy blocks from the DNS, of all its clients and of clients outside its namespace. A
// missing policy entry may be intended, so it is a warning. A DNS server for certain pods may also be intended, so it
// is info. A DNS server reachable only from its own namespace is a fault.
func (k *blockedPods) result(judged, outside int, namespace string) probe.Result {
	kept := 0
	for _, pod := range k.pods {
		if !strings.HasPrefix(pod, namespace+"/") {
			kept++
		}
	}
	pods := cluster.Few(k.pods)
	switch {
	case k.Set != "":
		return probe.Found(probe.Fail, "a rule of the policy denies pods access to %s, which contains cluster DNS: %s", k.Set, pods)
	case k.How == netpolicy.DNSDenied:
		return probe.Found(probe.Fail, "a rule of the policy denies cluster DNS to pods that may connect outside the cluster: %s", pods)
	case k.How == netpolicy.DNSMissed:
		return probe.Found(probe.Fail, "the policy's rule for the DNS port does not match cluster DNS over UDP, and no other rule allows it: %s", pods)
	case k.How == netpolicy.DNSShut && kept == outside && kept > 0:
		return probe.Found(probe.Fail, "the policy selects the cluster DNS pods and blocks all %d pods on the node outside %s that query DNS: %s",
			kept, namespace, pods)
	case k.How == netpolicy.DNSShut:
		return probe.Found(probe.Info, "the policy selects the cluster DNS pods and blocks %d of %d pods that query DNS: %s",
			len(k.pods), judged, pods)
	case k.How == netpolicy.DNSNoEgress:
		return probe.Found(probe.Warn, "the policy denies all egress of %d of %d pods that use cluster DNS, so these pods cannot resolve names: %s",
			len(k.pods), judged, pods)
	}
	return probe.Found(probe.Warn, "the policy allows egress of %d of %d pods that use cluster DNS, but not to cluster DNS over UDP: %s",
		len(k.pods), judged, pods)
}
