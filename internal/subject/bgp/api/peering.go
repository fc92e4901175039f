package api

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// reflectorsOf returns the nodes whose annotation makes them route reflectors; the full mesh excludes such nodes.
func reflectorsOf(s *cluster.Snapshot) []string {
	var out []string
	for _, n := range s.Nodes {
		if n.Annotations[cluster.AnnotationCluster] != "" {
			out = append(out, n.Name)
		}
	}
	slices.Sort(out)
	return out
}

// bgpPeering reports whether Calico's resources define a peer from which this node can learn the other nodes' routes.
func bgpPeering(s *cluster.Snapshot, report func(probe.Result)) {
	switch {
	case s.Peering.Unread() != nil:
		report(apicheck.UnreadOf("BGP's resources are", s.Peering.Unread()))
		return
	case s.Calico.Value == nil || s.Backend.Value == "vxlan" || s.Backend.Value == "none":
		report(probe.Found(probe.Skip, "no Calico BIRD found on this node"))
		return
	case s.Pools.Err != nil:
		report(apicheck.Unread(s.Pools.Err))
		return
	case len(s.Nodes) < 2 || !cluster.ByBIRD(s):
		report(probe.Found(probe.Skip, "found no route to other nodes' pods that depends on BIRD"))
		return
	}
	sessions, err := cluster.SessionTargets(s, s.Node)
	idle := s.Known().Idle()
	global := s.Peering.Configs.Value["default"]
	mesh, set := global["nodeToNodeMeshEnabled"].(bool)
	off := set && !mesh
	reflectors := reflectorsOf(s)
	reportPeers := func(r probe.Result) {
		if len(reflectors) > 0 {
			r = r.With(facts.Reflectors, reflectors)
		}
		if len(idle) > 0 {
			r.Saw += "; BGPPeers without a session: " + strings.Join(idle, ", ")
		}
		report(r.With(facts.MeshOff, off).With(facts.IdlePeers, idle))
	}
	switch {
	case err != nil:
		report(probe.Found(probe.Warn, "cannot derive this node's BGP sessions from the resources: %s", probe.OneLine(err.Error())).
			With(probe.FactReason, facts.BadBGPPeer))
	case len(sessions) > 0:
		reportPeers(probe.Found(probe.OK, "%s for this node", cluster.Plural(len(sessions), "BGP session")))
	case off:
		reportPeers(probe.Found(probe.Info, "the node-to-node mesh is disabled (nodeToNodeMeshEnabled: false), and no BGPPeer selects this node").
			With(probe.FactReason, facts.NoBGPPeer))
	case s.Node.Annotations[cluster.AnnotationCluster] != "":
		reportPeers(probe.Found(probe.Info, "this node is a route reflector (annotation %s): the node-to-node mesh excludes it, and no BGPPeer selects it", cluster.AnnotationCluster).
			With(probe.FactReason, facts.NoBGPPeer))
	case len(reflectors) > 0:
		reportPeers(probe.Found(probe.Info, "the node-to-node mesh excludes the route reflectors %s (annotation %s), and no BGPPeer selects this node",
			cluster.Few(reflectors), cluster.AnnotationCluster).With(probe.FactReason, facts.NoBGPPeer))
	default:
		reportPeers(probe.Found(probe.Info, "this node has no peer in the node-to-node mesh (this node or all other nodes are route reflectors), and no BGPPeer selects it").
			With(probe.FactReason, facts.NoBGPPeer))
	}
}
