package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
)

// hostActionDrops is a Felix that keeps pods from their own node.
func hostActionDrops(f diagnose.Findings) []diagnose.Case {
	kept := diagnose.Keep(evidence.InRole(f.Bad(pod.PodTCP.ID), pod.RoleOwnNode), func(r diagnose.Finding) bool {
		return r.Facts.Str(pod.FactToHost) != ""
	})
	if len(kept) == 0 {
		return nil
	}
	c := diagnose.Case{
		Says: fmt.Sprintf("pods on {node} do not reach the node itself, as Felix' setting defaultEndpointToHostAction (FELIX_DEFAULTENDPOINTTOHOSTACTION) is %s: %s",
			kept[0].Facts.Str(pod.FactToHost), kept[0].Saw),
		For: diagnose.Proves(kept),
	}
	if answers := evidence.KubeletAnswers(f); len(answers) > 0 { // on the node itself, so it is there
		c.For = append(c.For, diagnose.Shows(answers[:1])...)
	} else {
		c.For[0].Weight = diagnose.Strong
	}
	return []diagnose.Case{c}
}
