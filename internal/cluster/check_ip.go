package cluster

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

func ipRegistered(s *Snapshot, report func(probe.Result)) {
	sharedInternal(s, report)
	if why := s.unregistered(); why != "" {
		report(probe.Found(probe.Skip, "Calico registers no address on Nodes here: %s", why))
		return
	}
	found := false
	for _, key := range []string{annotationIPv4, annotationIPv6} {
		found = registeredFamily(s, key, report) || found
	}
	if !found {
		report(probe.Found(probe.Warn, "no node carries a projectcalico.org/IPv4Address or IPv6Address annotation: Calico registered no address here"))
	}
}

// inEtcd is why Calico writes nothing into the API.
const inEtcd = "its data is in an etcd of its own"

// unregistered says why Calico writes no addresses on Nodes, "" where it does. What stands there all
// the same is left over from before.
func (s *Snapshot) unregistered() string {
	switch {
	case errors.Is(s.pools.Err, errInEtcd):
		return inEtcd
	case s.backend.Value == "none" && !s.olderThan(26, 2):
		return "its networking backend is none"
	}
	return ""
}

// registration is one node's addresses in one family: the one Calico registered and the one the
// kubelet reports.
type registration struct {
	node       string
	registered netip.Prefix
	internal   netip.Addr
}

func (p registration) agrees() bool { return p.registered.Addr() == p.internal }

// registeredFamily reports about one address family and tells whether any node
// has an address there.
func registeredFamily(s *Snapshot, key string, report func(probe.Result)) bool {
	family := strings.TrimSuffix(strings.TrimPrefix(key, "projectcalico.org/"), "Address")
	all := s.known().registered[key]()
	var mine *registration
	if i := slices.IndexFunc(all, func(r registration) bool { return r.node == s.Node.Name }); i >= 0 {
		mine = &all[i]
	}
	if len(all) == 0 {
		return false
	}
	if mine == nil {
		if taken, ok := takenMeanwhile(s, all); ok {
			report(taken.On(family))
			return true
		}
		status := probe.Warn
		if key == annotationIPv6 && !hasInternal(s.Node, false) || s.Calico.Value == nil && notCalicos(s.Node) != "" {
			status = probe.Info
		}
		report(probe.Found(status, "no %s address registered here, while %s have one", family,
			plural(len(all), "other node")).On(family))
		return true
	}
	report(judgeRegistration(*mine, all).On(family).
		With(facts.Registered, mine.registered.Addr().String()).With(facts.Internal, textOf(mine.internal)))
	if s.together {
		return true
	}
	for _, other := range all {
		if other.node != mine.node && other.internal.IsValid() && mine.agrees() && !other.agrees() {
			report(probe.Found(probe.Warn, "node %s is registered with %s, its InternalIP is %s", other.node,
				other.registered.Addr(), other.internal).
				On(family+" "+other.node).
				With(probe.FactNode, other.node).With(probe.FactReason, facts.ReasonPeer).
				With(facts.Registered, other.registered.Addr().String()).With(facts.Internal, textOf(other.internal)))
		}
	}
	return true
}

// takenMeanwhile finds another node that is registered with an address which this one, registered with none, reports as
// its own. calico-node does not start here while it is.
func takenMeanwhile(s *Snapshot, all []registration) (probe.Result, bool) {
	for _, o := range all {
		addr := o.registered.Addr()
		if !slices.Contains(InternalIPs(s.Node), addr) {
			continue
		}
		r := probe.Found(probe.Fail, "no address is registered here, and %s, this node's InternalIP, is for %s", addr, o.node).
			With(probe.FactReason, facts.ReasonTaken).With(probe.FactNode, o.node).
			With(facts.Registered, addr.String()).With(facts.Internal, addr.String())
		i := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == o.node })
		if state := stateOf(&s.Nodes[i])[probe.AttrNode]; state != "" {
			r = r.With(probe.FactNodeState, state)
			r.Saw += ", which is " + state
		}
		return r, true
	}
	return probe.Result{}, false
}

func judgeRegistration(mine registration, all []registration) probe.Result {
	agree, neighbours := 0, 0
	for _, o := range all {
		if o.node == mine.node {
			continue
		}
		if o.registered.Addr() == mine.registered.Addr() {
			return probe.Found(probe.Fail, "%s is registered for this node and for %s", mine.registered.Addr(), o.node).
				With(probe.FactReason, facts.ReasonTaken).With(probe.FactNode, o.node)
		}
		if o.agrees() {
			agree++
		}
		if mine.registered.Contains(o.registered.Addr()) {
			neighbours++
		}
	}
	others := len(all) - 1
	switch {
	case !mine.internal.IsValid():
		return probe.Found(probe.Info, "%s is registered; the node reports no InternalIP of this family", mine.registered)
	case mine.agrees():
		return probe.Found(probe.OK, "registered %s is the node's InternalIP; %d of %d other nodes agree with theirs",
			mine.registered, agree, others)
	case others > 0 && neighbours == others:
		return probe.Found(probe.Info, "registered %s is not the InternalIP %s, but all %d other nodes are registered in the same network", mine.registered, mine.internal, others)
	case others == 0:
		return probe.Found(probe.Info, "registered %s is not the InternalIP %s; there is no other node to compare with",
			mine.registered, mine.internal)
	case others > 0 && agree == 0:
		return probe.Found(probe.Info, "registered %s is not the InternalIP %s, and no other node's is either: a network of its own for pods?", mine.registered, mine.internal)
	case mine.registered.IsSingleIP():
		return probe.Found(probe.Fail, "registered %s is not the InternalIP %s, while %d of %d other nodes registered theirs", mine.registered.Addr(), mine.internal, agree, others).
			With(probe.FactReason, facts.ReasonOutside)
	}
	return probe.Found(probe.Fail, "registered %s is not the InternalIP %s; outside its network %s: %d of %d other nodes",
		mine.registered.Addr(), mine.internal, mine.registered.Masked(), others-neighbours, others).
		With(probe.FactReason, facts.ReasonOutside)
}

// registrations are those of the nodes that have one.
func registrations(nodes []corev1.Node, key string) []registration {
	var all []registration
	for i := range nodes {
		n := &nodes[i]
		reg, ok := registered(n, key)
		if !ok {
			continue
		}
		p := registration{node: n.Name, registered: reg}
		for _, a := range InternalIPs(n) {
			if a.Is4() == reg.Addr().Is4() && (!p.internal.IsValid() || a == reg.Addr()) {
				p.internal = a // of several, the one that was registered
			}
		}
		all = append(all, p)
	}
	return all
}

func hasInternal(n *corev1.Node, v4 bool) bool {
	for _, a := range InternalIPs(n) {
		if a.Is4() == v4 {
			return true
		}
	}
	return false
}

// sharedInternal reports another node at whose InternalIP and port the API server finds this node's kubelet, or
// the other way round (kubernetes/kubernetes#60835). A node that is not Ready may be this machine's old Node, and
// kubelets that share a host on purpose listen at different ports.
func sharedInternal(s *Snapshot, report func(probe.Result)) {
	if !readyNow(s.Node) {
		return
	}
	for _, a := range InternalIPs(s.Node) {
		for _, other := range s.known().internal()[a] {
			if other.Name == s.Node.Name || !readyNow(other) || kubeletPort(other) != kubeletPort(s.Node) {
				continue
			}
			report(probe.Found(probe.Warn, "%s is the InternalIP of this node and of %s, both Ready: the API server reaches one of their kubelets for the other", a, other.Name).
				On("InternalIP "+a.String()).With(probe.FactReason, facts.ReasonShared).
				With(probe.FactNode, other.Name).With(facts.Internal, a.String()))
			return
		}
	}
}

func readyNow(n *corev1.Node) bool { return readiness(n).Status == corev1.ConditionTrue }

func kubeletPort(n *corev1.Node) int32 { return n.Status.DaemonEndpoints.KubeletEndpoint.Port }

func textOf(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
