package api

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

func ipRegistered(s *cluster.Snapshot, report func(probe.Result)) {
	sharedInternal(s, report)
	if why := s.Unregistered(); why != "" {
		report(probe.Found(probe.Skip, "Calico does not register addresses on Nodes here: %s", why))
		return
	}
	found := false
	for _, key := range []string{cluster.AnnotationIPv4, cluster.AnnotationIPv6} {
		found = registeredFamily(s, key, report) || found
	}
	if !found {
		report(probe.Found(probe.Warn, "no Node has a projectcalico.org/IPv4Address or IPv6Address annotation: Calico registered no addresses"))
	}
}

// registeredFamily reports about one address family, and returns whether any node has an address of it.
func registeredFamily(s *cluster.Snapshot, key string, report func(probe.Result)) bool {
	family := strings.TrimSuffix(strings.TrimPrefix(key, "projectcalico.org/"), "Address")
	all := s.Known().Registered[key]()
	var mine *cluster.Registration
	if i := slices.IndexFunc(all, func(r cluster.Registration) bool { return r.Node == s.Node.Name }); i >= 0 {
		mine = &all[i]
	}
	if len(all) == 0 {
		return false
	}
	if mine == nil {
		if taken, ok := findTaken(s, all); ok {
			report(taken.On(family))
			return true
		}
		status := probe.Warn
		if key == cluster.AnnotationIPv6 && !hasInternal(s.Node, false) ||
			s.Calico.Value == nil && cluster.NotCalicos(s.Node) != "" {
			status = probe.Info
		}
		report(probe.Found(status, "no %s address registered for this node, but %s have one", family,
			cluster.Plural(len(all), "other node")).On(family))
		return true
	}
	report(judgeRegistration(*mine, all).On(family).
		With(facts.Registered, mine.Registered.Addr().String()).With(facts.Internal, textOf(mine.Internal)))
	if s.Together {
		return true
	}
	for _, other := range all {
		if other.Node != mine.Node && other.Internal.IsValid() && mine.Agrees() && !other.Agrees() {
			report(probe.Found(probe.Warn, "node %s is registered with %s, but its InternalIP is %s", other.Node,
				other.Registered.Addr(), other.Internal).
				On(family+" "+other.Node).
				With(probe.FactNode, other.Node).With(probe.FactReason, facts.ReasonPeer).
				With(facts.Registered, other.Registered.Addr().String()).With(facts.Internal, textOf(other.Internal)))
		}
	}
	return true
}

// findTaken finds another node that is registered with an address that this node, registered with none, reports
// as its own. calico-node cannot start here until that is resolved.
func findTaken(s *cluster.Snapshot, all []cluster.Registration) (probe.Result, bool) {
	for _, o := range all {
		addr := o.Registered.Addr()
		if !slices.Contains(cluster.InternalIPs(s.Node), addr) {
			continue
		}
		r := probe.Found(probe.Fail, "no address is registered for this node; its InternalIP %s is registered for %s", addr, o.Node).
			With(probe.FactReason, facts.ReasonTaken).With(probe.FactNode, o.Node).
			With(facts.Registered, addr.String()).With(facts.Internal, addr.String())
		i := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == o.Node })
		if state := cluster.StateOf(&s.Nodes[i])[probe.AttrNode]; state != "" {
			r = r.With(probe.FactNodeState, state)
			r.Saw += ", which is " + state
		}
		return r, true
	}
	return probe.Result{}, false
}

func judgeRegistration(mine cluster.Registration, all []cluster.Registration) probe.Result {
	agree, neighbours := 0, 0
	for _, o := range all {
		if o.Node == mine.Node {
			continue
		}
		if o.Registered.Addr() == mine.Registered.Addr() {
			return probe.Found(probe.Fail, "%s is registered for this node and for %s", mine.Registered.Addr(), o.Node).
				With(probe.FactReason, facts.ReasonTaken).With(probe.FactNode, o.Node)
		}
		if o.Agrees() {
			agree++
		}
		if mine.Registered.Contains(o.Registered.Addr()) {
			neighbours++
		}
	}
	others := len(all) - 1
	switch {
	case !mine.Internal.IsValid():
		return probe.Found(probe.Info, "%s is registered; the node reports no InternalIP of this family", mine.Registered)
	case mine.Agrees():
		return probe.Found(probe.OK, "registered %s is the node's InternalIP; %d of %d other nodes match too",
			mine.Registered, agree, others)
	case others > 0 && neighbours == others:
		return probe.Found(probe.Info, "registered %s is not the InternalIP %s, but all %d other nodes are registered in the same network", mine.Registered, mine.Internal, others)
	case others == 0:
		return probe.Found(probe.Info, "registered %s is not the InternalIP %s; no other node to compare with",
			mine.Registered, mine.Internal)
	case others > 0 && agree == 0:
		return probe.Found(probe.Info, "registered %s is not the InternalIP %s, and every other node's address differs too: dedicated pod network?", mine.Registered, mine.Internal)
	case mine.Registered.IsSingleIP():
		return probe.Found(probe.Fail, "registered %s is not the InternalIP %s, but %d of %d other nodes registered their InternalIP", mine.Registered.Addr(), mine.Internal, agree, others).
			With(probe.FactReason, facts.ReasonOutside)
	}
	return probe.Found(probe.Fail, "registered %s is not the InternalIP %s; %d of %d other nodes are outside its network %s",
		mine.Registered.Addr(), mine.Internal, others-neighbours, others, mine.Registered.Masked()).
		With(probe.FactReason, facts.ReasonOutside)
}

func hasInternal(n *corev1.Node, v4 bool) bool {
	for _, a := range cluster.InternalIPs(n) {
		if a.Is4() == v4 {
			return true
		}
	}
	return false
}

// sharedInternal reports another node with the same InternalIP and kubelet port, so that the API server reaches one
// node's kubelet at the other's address (kubernetes/kubernetes#60835). A node that is not Ready may be this machine's
// old Node, and kubelets that share a host on purpose use different ports.
func sharedInternal(s *cluster.Snapshot, report func(probe.Result)) {
	if !cluster.ReadyNow(s.Node) {
		return
	}
	for _, a := range cluster.InternalIPs(s.Node) {
		for _, other := range s.Known().Internal()[a] {
			if other.Name == s.Node.Name || !cluster.ReadyNow(other) || kubeletPort(other) != kubeletPort(s.Node) {
				continue
			}
			report(probe.Found(probe.Warn, "%s is the InternalIP of this node and of %s, both Ready: the API server reaches the wrong kubelet for one of them", a, other.Name).
				On("InternalIP "+a.String()).With(probe.FactReason, facts.ReasonShared).
				With(probe.FactNode, other.Name).With(facts.Internal, a.String()))
			return
		}
	}
}

func kubeletPort(n *corev1.Node) int32 { return n.Status.DaemonEndpoints.KubeletEndpoint.Port }

func textOf(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
