package cause

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// kubeletAuthority is kubernetes/kubernetes#40067.
func kubeletAuthority(f diagnose.Findings) []diagnose.Case {
	refused := diagnose.Keep(f.Failed(kubelet.KubeletHealth.ID), diagnose.About(kubelet.TargetAuthority))
	says := slices.Concat(evidence.ServiceWrites(f, logs.ServiceKubelet, logs.SaysAuthority),
		evidence.ServiceEnds(f, logs.ServiceKubelet, logs.SaysAuthority))
	lease := f.Failed(facts.CheckNodeLease)
	if len(refused) == 0 && (len(says) == 0 || len(lease) == 0) {
		return nil
	}
	c := diagnose.Case{
		For:    slices.Concat(diagnose.Suggests(refused), diagnose.Suggests(says), diagnose.Shows(lease)),
		Covers: evidence.KubeletGone,
		// It may have started with another file, and a clock that is wrong makes every certificate look bad.
		Against: slices.Concat(diagnose.Hints(diagnose.Good(f, facts.CheckNodeLease)),
			diagnose.Suggests(f.Failed(host.NodeClock.ID))),
	}
	if len(refused) > 0 && len(lease) > 0 {
		c.For[0].Weight = diagnose.Proof
	}
	c.Says = "the kubelet on {node} does not accept the API server's certificate: "
	if len(refused) > 0 {
		c.Says += refused[0].Saw
	} else {
		c.Says += says[0].Saw
	}
	if len(lease) == 0 {
		c.Says += "; it still reports, and will not after its next start"
	}
	return []diagnose.Case{c}
}
