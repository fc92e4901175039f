package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// kubeletRenamed is kubernetes/minikube#7162.
func kubeletRenamed(f diagnose.Findings) []diagnose.Case {
	lease := f.Failed(facts.CheckNodeLease)
	moved := diagnose.Keep(lease, func(r diagnose.Finding) bool { return r.Facts.Str(facts.RenamedTo) != "" })
	says := slices.Concat(evidence.ServiceWrites(f, logs.ServiceKubelet, logs.SaysRenamed),
		evidence.ServiceEnds(f, logs.ServiceKubelet, logs.SaysRenamed))
	c := diagnose.Case{Covers: evidence.KubeletGone, For: diagnose.Proves(moved)}
	switch {
	case len(lease) == 0 || len(moved)+len(says) == 0:
		return nil
	case len(moved) > 0:
		c.Says = fmt.Sprintf("the machine of {node} reports as node %s now, and nobody as {node}%s", moved[0].Facts.Str(facts.RenamedTo), evidence.Since(f))
	default:
		c.Says = "the kubelet on {node} uses a name that its credentials are not for, and is refused: " + says[0].Saw
		c.For = diagnose.Shows(lease)
	}
	if len(says) > 0 {
		c.For = append(c.For, diagnose.Clues(evidence.EndWeight(says[0], true), says)...)
	}
	return []diagnose.Case{c}
}

// deadConnection adds to a kubelet that is cut off that its connection is dead and its way is well
// (kubernetes/kubernetes#87615): kubelets before v1.20 keep such a connection until they are started anew.
func deadConnection(f diagnose.Findings, c diagnose.Case) diagnose.Case {
	says, reached := evidence.ServiceWrites(f, logs.ServiceKubelet, logs.SaysDeadConn),
		diagnose.Good(f, datastore.DatastoreLatency.ID)
	if len(says) == 0 || len(reached) == 0 || len(f.Failed(datastore.DatastoreLatency.ID)) > 0 {
		return c
	}
	c.Says += "; the API server answers from this node, and the kubelet keeps a connection that is dead: " + says[0].Saw
	c.For = append(c.For, diagnose.Hints(says)...)
	c.Fix = &probe.Fix{
		Says: "Start the kubelet anew: it then opens a new connection. From v1.20 on it notices a dead one within a minute.",
		Manifest: []string{"ssh {node} sudo systemctl restart {kubelet}",
			"ssh {node} sudo journalctl -u {kubelet} -n 50 --no-pager"},
		Radius: "this node only; a kubelet that starts does not restart running pods{together}",
	}
	return c
}
