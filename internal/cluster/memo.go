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

// memo is what follows from a Survey alone, worked out once however many of its nodes are judged. A Snapshot whose
// Survey was changed has none, and works it out anew.
type memo struct {
	unannotated func() []corev1.Node
	speakers    func() []speaker
	peers       func() ([]peer, error)
	idle        func() []string
	registered  map[string]func() []registration // by annotation
	felix       func() []map[string]any
	ready       func() []*corev1.Node                // those of Linux
	unready     func() []*corev1.Node                // the same that are not
	internal    func() map[netip.Addr][]*corev1.Node // nodes by their InternalIPs
	tunnels     func() []probe.Target                // as they are asked about on any node
	blocks      func() []probe.Target
}

func newMemo(s *Survey) *memo {
	once := func(key string) func() []registration {
		return sync.OnceValue(func() []registration { return registrations(s.Nodes, key) })
	}
	m := &memo{
		unannotated: sync.OnceValue(func() []corev1.Node { return unannotated(s.Nodes) }),
		speakers:    sync.OnceValue(func() []speaker { return speakersOf(s) }),
		registered:  map[string]func() []registration{},
		felix:       sync.OnceValue(func() []map[string]any { return felixOfAll(s) }),
		ready:       sync.OnceValue(func() []*corev1.Node { return onLinux(s.Nodes, true) }),
		unready:     sync.OnceValue(func() []*corev1.Node { return onLinux(s.Nodes, false) }),
		internal:    sync.OnceValue(func() map[netip.Addr][]*corev1.Node { return byInternalIP(s.Nodes) }),
		tunnels:     sync.OnceValue(func() []probe.Target { return tunnelsOf(s.Nodes) }),
		blocks:      sync.OnceValue(func() []probe.Target { return blocksOf(s) }),
	}
	m.peers = sync.OnceValues(func() ([]peer, error) { return bgpPeers(s, m.speakers()) })
	m.idle = sync.OnceValue(func() []string { return idlePeers(s, m.speakers()) })
	for _, key := range []string{annotationIPv4, annotationIPv6} {
		m.registered[key] = once(key)
	}
	return m
}

// known is the Survey's memo, or one for this call where it has none.
func (s *Survey) known() *memo {
	if s.memo != nil {
		return s.memo
	}
	return newMemo(s)
}

// byInternalIP are nodes by the addresses that their kubelets report.
func byInternalIP(nodes []corev1.Node) map[netip.Addr][]*corev1.Node {
	out := map[netip.Addr][]*corev1.Node{}
	for i := range nodes {
		for _, a := range InternalIPs(&nodes[i]) {
			out[a] = append(out[a], &nodes[i])
		}
	}
	return out
}

// unannotated are nodes without what Calico wrote on them.
func unannotated(nodes []corev1.Node) []corev1.Node {
	out := slices.Clone(nodes)
	for i := range out {
		out[i].Annotations = maps.Clone(out[i].Annotations)
		maps.DeleteFunc(out[i].Annotations, func(key, _ string) bool { return strings.HasPrefix(key, "projectcalico.org/") })
	}
	return out
}
