package cluster

// Why no BGP session is meant for a node, as the fact NoSessions says it.
const (
	becauseReflector = "the node has the annotation " + annotationCluster + ", so it is a route reflector and not in the mesh of nodes, and no BGPPeer is for it"
	becauseMeshOff   = "nodeToNodeMeshEnabled of BGPConfiguration default is off, and no BGPPeer is for the node"
)

// noSessions says why Calico's resources mean no BGP session for the node though others could be its peers, "" where
// they mean one, or it is not known.
func noSessions(s *Snapshot) string {
	if s.backend != "bird" || s.peeringErr != nil {
		return ""
	}
	if meant, err := sessionTargets(s, s.Node); err != nil || len(meant) > 0 {
		return ""
	}
	own := speakerOf(s.Node, s.peering, defaultAS)
	others := false
	for i := range s.Nodes {
		n := speakerOf(&s.Nodes[i], s.peering, defaultAS)
		others = others || n.node.Name != s.Node.Name && len(n.addrs) > 0
	}
	on, set := s.peering.configs["default"]["nodeToNodeMeshEnabled"].(bool)
	switch {
	case !others || len(own.addrs) == 0:
		return ""
	case own.cluster != "":
		return becauseReflector
	case set && !on:
		return becauseMeshOff
	}
	return ""
}
