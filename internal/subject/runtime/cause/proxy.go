package cause

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// runtimeProxy is projectcalico/calico#2941.
func runtimeProxy(f diagnose.Findings) []diagnose.Case {
	set := diagnose.Keep(f.Of(cni.CNIToken.ID), diagnose.About(cni.TargetRuntimeProxy))
	plugin := evidence.WaitingPods(f, facts.StartsCNI)
	pods := diagnose.Keep(plugin,
		func(r diagnose.Finding) bool { return r.Facts.Str(facts.Obstacle) == facts.ObstacleProxy })
	weight := diagnose.Hint
	if len(set) > 0 && len(pods) == 0 { // it asks the proxy, so no other word is of the API server's for certain
		pods, weight = diagnose.Keep(plugin, asksNoServer), 0
	}
	if len(pods) == 0 {
		return nil
	}
	c := diagnose.Case{For: slices.Concat(diagnose.Suggests(pods), diagnose.Clues(weight, set)),
		Covers: evidence.PodsUnconnected}
	c.Says = "no new pod gets a network on {node}: a proxy answers the CNI plugin in the API server's place: "
	if len(set) > 0 {
		c.Says = "no new pod gets a network on {node}: " + set[0].Saw + ": "
	}
	c.Says += pods[0].Facts.Str(facts.Message)
	return []diagnose.Case{c}
}

// asksNoServer tells whether Calico's plugin got no answer from the API server, and did not dial it itself.
func asksNoServer(r diagnose.Finding) bool {
	says := r.Facts.Str(facts.Message)
	return r.Facts.Str(facts.Plugin) == "calico" && strings.Contains(says, `https://`) && strings.Contains(says, "Get ") &&
		!strings.Contains(says, "dial tcp") && !strings.Contains(says, "x509: ")
}
