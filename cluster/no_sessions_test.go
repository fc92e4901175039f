package cluster

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestNoSessions wants it said why no BGP session is meant for a node, and nothing where one is, or BIRD has no part.
func TestNoSessions(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	off := map[string]m{"default": {"nodeToNodeMeshEnabled": false}}
	peer := map[string]m{"p": {"peerIP": "10.0.0.9", "asNumber": int64(64512)}}
	for name, c := range map[string]struct {
		reflector, backend string
		configs, peers     map[string]m
		why                string
	}{
		"recorded: an annotation left": {"244.0.0.1", "bird", nil, nil, annotationCluster},
		"the mesh is off":              {"", "bird", off, nil, "nodeToNodeMeshEnabled"},
		"near: the mesh":               {"", "bird", nil, nil, ""},
		"near: a reflector with peers": {"244.0.0.1", "bird", off, peer, ""},
		"near: no BIRD":                {"244.0.0.1", "vxlan", off, nil, ""},
	} {
		own := node("a", "10.0.0.1", "10.0.0.1/24")
		if c.reflector != "" {
			own.Annotations[annotationCluster] = c.reflector
		}
		s := snapshot(own, node("b", "10.0.0.2", "10.0.0.2/24"))
		s.Calico, s.backend = calico(3), c.backend
		s.peering.configs, s.peering.peers = c.configs, c.peers
		got := ask(t, s, facts.CheckCalicoKind)[0].Facts.Str(facts.NoSessions)
		if (got != "") != (c.why != "") || !strings.Contains(got, c.why) {
			t.Errorf("%s: %q, want %q", name, got, c.why)
		}
	}
}
