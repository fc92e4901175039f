package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/netpolicy/selector"
	"github.com/calico-probe/calico-probe/probe"
)

// Further annotations that Calico writes on a Node.
const (
	AnnotationAS      = "projectcalico.org/ASNumber"
	AnnotationCluster = "projectcalico.org/RouteReflectorClusterID"
)

// Calico's defaults (confd, globalDefaults).
const (
	defaultAS      = "64512"
	DefaultBGPPort = 179
)

// peering holds Calico's BGP resources.
type peering struct {
	Peers   Read[Specs] // of BGPPeers
	Configs Read[Specs] // of BGPConfigurations: default, node.NAME
}

// Unread returns why the resources are incomplete, or nil if they are complete.
func (p peering) Unread() error { return cmp.Or(p.Configs.Err, p.Peers.Err) }

// Port returns the port configured for BIRD on a node; 0 = not configured.
func (p peering) Port(n *corev1.Node) int {
	out := 0
	for _, name := range []string{"default", "node." + n.Name} {
		if port, _ := p.Configs.Value[name]["listenPort"].(int64); port > 0 {
			out = int(port)
		}
	}
	return out
}

// Speaker is a node as a BGP speaker.
type Speaker struct {
	Node    *corev1.Node
	addrs   []netip.Addr
	as      string
	cluster string // a route reflector's cluster ID; "" on other nodes
	port    int
}

func (s Speaker) speaks(to netip.Addr) bool {
	return slices.ContainsFunc(s.addrs, func(a netip.Addr) bool { return a.Is4() == to.Is4() })
}

// Sessions collects targets as confd collects peers: one for each address and port. The first target for an address and
// port wins (confd, updatePeersV1).
type Sessions struct {
	Own     Speaker
	secret  bool   // sessions added now have a password
	filters string // BGPFilters of sessions added now
	Targets []probe.Target
	have    map[netip.AddrPort]bool // addresses and ports of the collected sessions
}

// add adds a peer; node is nil if the peer is outside the cluster.
func (l *Sessions) add(scope, name string, node *corev1.Node, addr netip.Addr, port int, as string) {
	at := netip.AddrPortFrom(addr, uint16(port))
	if !l.Own.speaks(addr) || slices.Contains(l.Own.addrs, addr) || l.have[at] {
		return
	}
	if l.have == nil {
		l.have = map[netip.AddrPort]bool{}
	}
	l.have[at] = true
	t := probe.Target{
		Kind: probe.KindSession, Name: name, Addr: addr, Port: port,
		Attrs: map[string]string{probe.AttrScope: scope, probe.AttrAS: as},
	}
	if node != nil {
		t.Node = node.Name
		maps.Copy(t.Attrs, StateOf(node))
	}
	if l.secret {
		t.Attrs[probe.AttrPassword] = "true"
	}
	if l.filters != "" {
		t.Attrs[probe.AttrFilters] = l.filters
	}
	l.Targets = append(l.Targets, t)
}

func (l *Sessions) addNode(scope string, peer Speaker, wanted func(netip.Addr) bool) {
	for _, a := range peer.addrs {
		if wanted(a) {
			l.add(scope, peer.Node.Name, peer.Node, a, peer.port, peer.as)
		}
	}
}

// SessionTargets returns the BGP sessions that confd configures on a node from the API's data, and why some are
// missing. It omits peers that are the node's own workloads, because those come and go with pods.
func SessionTargets(s *Snapshot, of *corev1.Node) ([]probe.Target, error) {
	if err := s.Peering.Unread(); err != nil {
		return nil, err
	}
	if s.Backend.Value == "vxlan" || s.Backend.Value == "none" {
		return nil, nil
	}
	known := s.Known()
	l := &Sessions{}
	for _, n := range known.speakers() {
		if n.Node.Name == of.Name {
			l.Own = n
		}
	}
	global := s.Peering.Configs.Value["default"]
	both := func(netip.Addr) bool { return true }
	_, l.secret = global["nodeMeshPassword"].(map[string]any)
	if on, set := global["nodeToNodeMeshEnabled"].(bool); (on || !set) && l.Own.cluster == "" {
		for _, n := range known.speakers() {
			if n.cluster == "" {
				l.addNode("mesh", n, both)
			}
		}
	}
	peers, err := known.Peers()
	l.AddPeers(peers, func(n Speaker) bool { return n.Node.Name == of.Name })
	return l.Targets, err
}

// GlobalAS returns the AS number of nodes without a node-specific AS number.
func (p peering) GlobalAS() string {
	return cmp.Or(textOfAS(p.Configs.Value["default"]["asNumber"]), defaultAS)
}

// speakersOf returns all nodes as BGP speakers.
func speakersOf(s *Survey) []Speaker {
	globalAS := s.Peering.GlobalAS()
	out := make([]Speaker, 0, len(s.Nodes))
	for i := range s.Nodes {
		out = append(out, SpeakerOf(&s.Nodes[i], s.Peering, globalAS))
	}
	return out
}

// bgpPeers returns the BGPPeers in confd's order, in which global peers precede node-specific peers.
func bgpPeers(s *Survey, all []Speaker) ([]peer, error) {
	globalAS := s.Peering.GlobalAS()
	var peers []peer
	var errs []error
	for name, spec := range s.Peering.Peers.Value {
		p, err := peerOf(name, spec, all, globalAS)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		peers = append(peers, p)
	}
	slices.SortFunc(peers, func(a, b peer) int {
		if a.scope != b.scope {
			return strings.Compare(a.scope, b.scope) // "global" before "node"
		}
		return strings.Compare(a.name, b.name)
	})
	return peers, errors.Join(errs...)
}

// AddPeers adds the sessions that BGPPeers create on a node: sessions that the node opens, and sessions that other
// nodes open to it.
func (l *Sessions) AddPeers(peers []peer, isOwn func(Speaker) bool) {
	for _, p := range peers {
		if !slices.ContainsFunc(p.here, isOwn) {
			continue
		}
		l.secret, l.filters = p.secret, p.filters
		for _, n := range p.there {
			l.addNode(p.scope, n, p.wanted)
		}
		if p.addr.IsValid() {
			var node *corev1.Node
			if len(p.behind) > 0 {
				node = p.behind[0].Node
			}
			l.add(p.scope, p.name, node, p.addr, p.port, p.as)
		}
	}
	// The other node also peers with this node, unless the BGPPeer disables that.
	for _, p := range peers {
		if p.oneSided || !slices.ContainsFunc(p.there, isOwn) && !slices.ContainsFunc(p.behind, isOwn) {
			continue
		}
		l.secret, l.filters = p.secret, p.filters
		for _, n := range p.here {
			l.addNode("node", n, p.wanted)
		}
	}
}

// SpeakerOf returns a node as a BGP speaker, from its annotations and the resources.
func SpeakerOf(n *corev1.Node, by peering, globalAS string) Speaker {
	s := Speaker{Node: n, as: textOfAS(n.Annotations[AnnotationAS]), cluster: n.Annotations[AnnotationCluster],
		port: cmp.Or(by.Port(n), DefaultBGPPort)}
	if s.as == "" {
		s.as = globalAS
	}
	for _, key := range []string{AnnotationIPv4, AnnotationIPv6} {
		if p, ok := registered(n, key); ok {
			s.addrs = append(s.addrs, p.Addr())
		}
	}
	return s
}

// peer is a BGPPeer with its selectors evaluated.
type peer struct {
	name, scope string
	here        []Speaker             // the nodes that should have this peer
	there       []Speaker             // the nodes that the BGPPeer selects as peers
	behind      []Speaker             // the nodes that have its peerIP
	addr        netip.Addr            // its peerIP
	port        int                   //
	as          string                // the expected AS of the peer
	wanted      func(netip.Addr) bool // families
	secret      bool                  // the session has a password
	filters     string                // names of its BGPFilters
	oneSided    bool                  // another resource configures the other end
}

func peerOf(name string, spec map[string]any, all []Speaker, globalAS string) (peer, error) {
	text := func(key string) string { v, _ := spec[key].(string); return v }
	p := peer{name: name, scope: "node", as: textOfAS(spec["asNumber"]), wanted: func(netip.Addr) bool { return true },
		oneSided: text("reversePeering") == "Manual"}
	if text("localWorkloadSelector") != "" {
		return p, nil // the peer is one of the node's own pods
	}
	_, p.secret = spec["password"].(map[string]any)
	if names, _ := spec["filters"].([]any); len(names) > 0 {
		p.filters = probe.Quoted(strings.Trim(fmt.Sprint(names), "[]"))
	}
	var err error
	switch {
	case text("nodeSelector") != "":
		p.here, err = matching(all, text("nodeSelector"))
	case text("node") != "":
		p.here = slices.DeleteFunc(slices.Clone(all), func(n Speaker) bool { return n.Node.Name != text("node") })
	default:
		p.scope, p.here = "global", all
	}
	if err != nil {
		return p, fmt.Errorf("BGPPeer %s: %w", name, err)
	}
	if text("peerSelector") != "" {
		if p.there, err = matching(all, text("peerSelector")); err != nil {
			return p, fmt.Errorf("BGPPeer %s: %w", name, err)
		}
		return p, nil
	}
	host, port := text("peerIP"), 0
	if h, after, err := net.SplitHostPort(host); err == nil {
		if n, err := strconv.ParseUint(after, 10, 16); err == nil {
			host, port = h, int(n)
		}
	}
	if p.addr, err = netip.ParseAddr(host); err != nil {
		return p, fmt.Errorf("BGPPeer %s: peerIP %q is not an IP address", name, text("peerIP"))
	}
	p.addr = p.addr.Unmap()
	p.wanted = func(a netip.Addr) bool { return a.Is4() == p.addr.Is4() }
	if p.as == "" {
		p.as = globalAS
	}
	for _, n := range all {
		if slices.Contains(n.addrs, p.addr) && n.as == p.as && (port == 0 || port == n.port) {
			p.behind = append(p.behind, n)
		}
	}
	if p.port = port; port == 0 {
		p.port = DefaultBGPPort
		if len(p.behind) > 0 {
			p.port = p.behind[0].port
		}
	}
	return p, nil
}

func matching(all []Speaker, text string) ([]Speaker, error) {
	selects, err := selector.Parse(text)
	if err != nil {
		return nil, err
	}
	var out []Speaker
	for _, n := range all {
		if selects(n.Node.Labels) {
			out = append(out, n)
		}
	}
	return out, nil
}

// textOfAS returns an AS number in plain form. Resources hold a number, or a text such as "64512" or "1.10". "" and 0
// mean that there is no AS number.
func textOfAS(v any) string {
	switch v := v.(type) {
	case int64:
		if v > 0 {
			return strconv.FormatInt(v, 10)
		}
	case string:
		high, low, dotted := strings.Cut(v, ".")
		h, err := strconv.ParseUint(high, 10, 32)
		if !dotted {
			if err == nil && h > 0 {
				return strconv.FormatUint(h, 10)
			}
			return ""
		}
		if l, bad := strconv.ParseUint(low, 10, 16); err == nil && bad == nil && h < 1<<16 {
			return strconv.FormatUint(h<<16|l, 10)
		}
	}
	return ""
}

// idlePeers returns the BGPPeers that do not create a session, each with the reason.
func idlePeers(s *Survey, all []Speaker) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.Peering.Peers.Value)) {
		spec := s.Peering.Peers.Value[name]
		text := func(key string) string { v, _ := spec[key].(string); return v }
		p, err := peerOf(name, spec, all, s.Peering.GlobalAS())
		switch {
		case err != nil || text("localWorkloadSelector") != "":
		case len(p.here) == 0 && text("nodeSelector") != "":
			out = append(out, fmt.Sprintf("%s (no node matches nodeSelector %s)", name, probe.Quoted(text("nodeSelector"))))
		case len(p.here) == 0:
			out = append(out, fmt.Sprintf("%s (node %s does not exist)", name, probe.Quoted(text("node"))))
		case len(p.there) == 0 && text("peerSelector") != "":
			out = append(out, fmt.Sprintf("%s (no node matches peerSelector %s)", name, probe.Quoted(text("peerSelector"))))
		}
	}
	return out
}
