package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// noPort is EADDRNOTAVAIL in the words of Go's programs, such as the kubelet and Felix.
const noPort = "connect: cannot assign requested address"

// wordsOfNode are the checks that quote the kubelet and Calico on the node.
var wordsOfNode = []string{probe.CheckPlaced, facts.CheckCalicoPod, facts.CheckDNSService, logs.CalicoLog.ID,
	logs.DaemonLog.ID, logs.KubeLog.ID}

// noPortsLeft is a node whose kernel has no source port for its own connections.
func noPortsLeft(f diagnose.Findings) []diagnose.Case {
	said := f.Where(func(r diagnose.Finding) bool {
		return slices.Contains(wordsOfNode, r.Check) && strings.Contains(r.Saw, noPort) && r.Status != probe.OK
	})
	if len(said) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: fmt.Sprintf("{node} cannot open connections of its own, not even to itself: %s", said[0].Saw),
		For:  diagnose.Suggests(said),
		Covers: slices.Concat(diagnose.Covers(probe.CheckPlaced, probe.CheckAnswered, facts.CheckCalicoBudget,
			facts.CheckDNSService),
			evidence.CalicoDown),
	}}
}
