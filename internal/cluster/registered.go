package cluster

import (
	"errors"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// InEtcd is the reason if Calico does not write its data to the API.
const InEtcd = "Calico keeps its data in a separate etcd"

// Unregistered returns why Calico does not write addresses on Nodes, or "" if it does. If Calico does not, any address
// there is a leftover.
func (s *Snapshot) Unregistered() string {
	switch {
	case errors.Is(s.Pools.Err, ErrInEtcd):
		return InEtcd
	case s.Backend.Value == "none" && !s.olderThan(26, 2):
		return "its networking backend is none"
	}
	return ""
}

// Registration holds a node's addresses of one family, as registered by Calico and as reported by the kubelet.
type Registration struct {
	Node       string
	Registered netip.Prefix
	Internal   netip.Addr
}

// Agrees reports whether Calico registered the address that the kubelet reports.
func (p Registration) Agrees() bool { return p.Registered.Addr() == p.Internal }

// registrations returns the registrations of all registered nodes.
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
				p.Internal = a // if there are several addresses, use the registered one
			}
		}
		all = append(all, p)
	}
	return all
}
