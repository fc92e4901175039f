package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// idlePeers are the BGPPeers that make no session on any node, each with the reason.
func idlePeers(s *Survey, all []speaker) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.peering.peers.Value)) {
		spec := s.peering.peers.Value[name]
		text := func(key string) string { v, _ := spec[key].(string); return v }
		p, err := peerOf(name, spec, all, s.peering.globalAS())
		switch {
		case err != nil || text("localWorkloadSelector") != "":
		case len(p.here) == 0 && text("nodeSelector") != "":
			out = append(out, fmt.Sprintf("%s (no node has what nodeSelector %s asks for)", name, probe.Quoted(text("nodeSelector"))))
		case len(p.here) == 0:
			out = append(out, fmt.Sprintf("%s (there is no node %s)", name, probe.Quoted(text("node"))))
		case len(p.there) == 0 && text("peerSelector") != "":
			out = append(out, fmt.Sprintf("%s (no node has what peerSelector %s asks for)", name, probe.Quoted(text("peerSelector"))))
		}
	}
	return out
}

// byBIRD tells whether BIRD makes the routes of a pool on this node, as far as is known.
func byBIRD(s *Snapshot) bool {
	who, known := s.makersNow()
	return slices.ContainsFunc(routedPools(s), func(r routed) bool {
		return !known || who.of(r.ipip) == probe.MakersBIRD || who.of(r.ipip) == probe.MakersBoth
	})
}

// reflectorsOf are the nodes that the mesh leaves out by their annotation.
func reflectorsOf(s *Snapshot) []string {
	var out []string
	for _, n := range s.Nodes {
		if n.Annotations[annotationCluster] != "" {
			out = append(out, n.Name)
		}
	}
	slices.Sort(out)
	return out
}

// bgpPeering says whether Calico's resources give this node anybody to learn the others' routes from.
func bgpPeering(s *Snapshot, report func(probe.Result)) {
	switch {
	case s.peering.unread() != nil:
		report(unreadOf("BGP's resources are", s.peering.unread()))
		return
	case s.Calico.Value == nil || s.backend.Value == "vxlan" || s.backend.Value == "none":
		report(probe.Found(probe.Skip, "no BIRD of Calico's is known here"))
		return
	case s.pools.Err != nil:
		report(unread(s.pools.Err))
		return
	case len(s.Nodes) < 2 || !byBIRD(s):
		report(probe.Found(probe.Skip, "no route to another node's pods is known that BIRD would make"))
		return
	}
	sessions, err := sessionTargets(s, s.Node)
	idle := s.known().idle()
	global := s.peering.configs.Value["default"]
	mesh, set := global["nodeToNodeMeshEnabled"].(bool)
	off := set && !mesh
	reflectors := reflectorsOf(s)
	tell := func(r probe.Result) {
		if len(reflectors) > 0 {
			r = r.With(facts.Reflectors, reflectors)
		}
		if len(idle) > 0 {
			r.Saw += "; BGPPeers that make no session: " + strings.Join(idle, ", ")
		}
		report(r.With(facts.MeshOff, off).With(facts.IdlePeers, idle))
	}
	switch {
	case err != nil:
		report(probe.Found(probe.Warn, "the sessions of this node do not follow from the resources: %s", probe.OneLine(err.Error())).
			With(probe.FactReason, facts.BadBGPPeer))
	case len(sessions) > 0:
		tell(probe.Found(probe.OK, "%s for this node", plural(len(sessions), "BGP session")))
	case off:
		tell(probe.Found(probe.Info, "the mesh of nodes is switched off (nodeToNodeMeshEnabled false), and no BGPPeer is for this node").
			With(probe.FactReason, facts.NoBGPPeer))
	case s.Node.Annotations[annotationCluster] != "":
		tell(probe.Found(probe.Info, "this node is a route reflector by its annotation %s, so the mesh of nodes leaves it out, and no BGPPeer is for it", annotationCluster).
			With(probe.FactReason, facts.NoBGPPeer))
	case len(reflectors) > 0:
		tell(probe.Found(probe.Info, "the mesh of nodes leaves out %s, route reflectors by their annotation %s, and no BGPPeer is for this node",
			few(reflectors), annotationCluster).With(probe.FactReason, facts.NoBGPPeer))
	default:
		tell(probe.Found(probe.Info, "this node has no peer in the mesh of nodes (it is a route reflector, or the others are), and no BGPPeer is for it").
			With(probe.FactReason, facts.NoBGPPeer))
	}
}
