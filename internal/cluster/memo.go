package cluster

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// memo caches data that is derived only from a Survey and computed once for all nodes, and accounts' permissions. A
// Snapshot with a changed Survey has no memo, and computes the data at each call.
type memo struct {
	unannotated func() []corev1.Node
	speakers    func() []Speaker
	Peers       func() ([]peer, error)
	Idle        func() []string
	Registered  map[string]func() []Registration // by annotation
	Felix       func() []map[string]any
	ready       func() []*corev1.Node                // ready Linux nodes
	unready     func() []*corev1.Node                // unready Linux nodes
	Internal    func() map[netip.Addr][]*corev1.Node // nodes by their InternalIPs
	tunnels     func() []probe.Target                // the ends of tunnels on all nodes
	blocks      func() []probe.Target
	families    func() map[bool]bool
	permissions permissionCache
}

func newMemo(s *Survey) *memo {
	once := func(key string) func() []Registration {
		return sync.OnceValue(func() []Registration { return registrations(s.Nodes, key) })
	}
	m := &memo{
		unannotated: sync.OnceValue(func() []corev1.Node { return unannotated(s.Nodes) }),
		speakers:    sync.OnceValue(func() []Speaker { return speakersOf(s) }),
		Registered:  map[string]func() []Registration{},
		Felix:       sync.OnceValue(func() []map[string]any { return felixOfAll(s) }),
		ready:       sync.OnceValue(func() []*corev1.Node { return onLinux(s.Nodes, true) }),
		unready:     sync.OnceValue(func() []*corev1.Node { return onLinux(s.Nodes, false) }),
		Internal:    sync.OnceValue(func() map[netip.Addr][]*corev1.Node { return byInternalIP(s.Nodes) }),
		tunnels:     sync.OnceValue(func() []probe.Target { return tunnelsOf(s.Nodes) }),
		blocks:      sync.OnceValue(func() []probe.Target { return blocksOf(s) }),
		families:    sync.OnceValue(func() map[bool]bool { return familiesOfCalico(s) }),
	}
	m.Peers = sync.OnceValues(func() ([]peer, error) { return bgpPeers(s, m.speakers()) })
	m.Idle = sync.OnceValue(func() []string { return idlePeers(s, m.speakers()) })
	for _, key := range []string{AnnotationIPv4, AnnotationIPv6} {
		m.Registered[key] = once(key)
	}
	return m
}

// Known returns the Survey's memo, or a temporary one if it has none.
func (s *Survey) Known() *memo {
	if s.memo != nil {
		return s.memo
	}
	return newMemo(s)
}

// byInternalIP maps each InternalIP that a kubelet reports to its nodes.
func byInternalIP(nodes []corev1.Node) map[netip.Addr][]*corev1.Node {
	out := map[netip.Addr][]*corev1.Node{}
	for i := range nodes {
		for _, a := range InternalIPs(&nodes[i]) {
			out[a] = append(out[a], &nodes[i])
		}
	}
	return out
}

// unannotated returns nodes without Calico's annotations.
func unannotated(nodes []corev1.Node) []corev1.Node {
	out := slices.Clone(nodes)
	for i := range out {
		out[i].Annotations = maps.Clone(out[i].Annotations)
		maps.DeleteFunc(out[i].Annotations, func(key, _ string) bool { return strings.HasPrefix(key, "projectcalico.org/") })
	}
	return out
}
