package cluster

import (
	"errors"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// InEtcd is why Calico writes nothing into the API.
const InEtcd = "its data is in an etcd of its own"

// Unregistered says why Calico writes no addresses on Nodes, "" where it does. An address there
// is left over from before.
func (s *Snapshot) Unregistered() string {
	switch {
	case errors.Is(s.Pools.Err, ErrInEtcd):
		return InEtcd
	case s.Backend.Value == "none" && !s.olderThan(26, 2):
		return "its networking backend is none"
	}
	return ""
}

// Registration is one node's addresses in one family: the one Calico registered and the one the
// kubelet reports.
type Registration struct {
	Node       string
	Registered netip.Prefix
	Internal   netip.Addr
}

// Agrees reports whether the registered address is the one that the kubelet reports.
func (p Registration) Agrees() bool { return p.Registered.Addr() == p.Internal }

// registrations are those of the nodes that have one.
func registrations(nodes []corev1.Node, key string) []Registration {
	var all []Registration
	for i := range nodes {
		n := &nodes[i]
		reg, ok := registered(n, key)
		if !ok {
			continue
		}
		p := Registration{Node: n.Name, Registered: reg}
		for _, a := range InternalIPs(n) {
			if a.Is4() == reg.Addr().Is4() && (!p.Internal.IsValid() || a == reg.Addr()) {
				p.Internal = a // of several, the one that was registered
			}
		}
		all = append(all, p)
	}
	return all
}
