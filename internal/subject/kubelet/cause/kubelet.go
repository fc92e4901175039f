package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// kubeletCertificate is a kubelet that the API server no longer knows.
func kubeletCertificate(f diagnose.Findings) []diagnose.Case {
	expired := f.With(kubelet.KubeletHealth.ID, probe.FactReason, kubelet.CertificateExpired)
	if len(expired) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: "the API server refuses {node}'s kubelet: " + expired[0].Saw,
		For: slices.Concat(diagnose.Suggests(expired), diagnose.Hints(f.Failed(facts.CheckNodeLease)),
			diagnose.Suggests(evidence.ServiceEnds(f, logs.ServiceKubelet, logs.SaysCertificate, logs.SaysNoKubeconfig))),
		// The kubelet may have renewed it elsewhere.
		Against: slices.Concat(diagnose.Suggests(diagnose.Good(f, facts.CheckNodeLease)),
			diagnose.Suggests(f.Failed(host.NodeClock.ID))),
		Covers: evidence.KubeletGone,
	}}
}

// kubeletDead is a kubelet that does not run, whatever keeps it from that.
func kubeletDead(f diagnose.Findings) []diagnose.Case {
	here, there := evidence.KubeletHere(f), evidence.FromOutside(f, evidence.KubeletPort)
	if !here.Dead() && len(there.Refused) == 0 {
		return nil
	}
	c := diagnose.Case{
		Says: "the kubelet does not run on {node}",
		For: slices.Concat(diagnose.Suggests(there.Refused), diagnose.Hints(f.Failed(facts.CheckNodeLease)),
			diagnose.Shows(f.Failed(facts.CheckNodeReady))),
		// A probe it has just started is of a kubelet that lives.
		Against: slices.Concat(diagnose.Proves(here.Ok), diagnose.Hints(diagnose.Good(f, facts.CheckNodeLease)),
			diagnose.Suggests(slices.DeleteFunc(evidence.NotPlaced(f, facts.ReasonAttach), evidence.SilentExec))),
		Covers: evidence.KubeletGone,
	}
	if here.Dead() {
		// One that has just ended has a lease yet.
		c.For, c.Against = append(diagnose.Proves(here.Refused), c.For...), nil
	} else {
		c.Fix = whyKubeletDead
	}
	c.Says += evidence.Since(f)
	for _, r := range f.With(logs.DaemonLog.ID, logs.FactStopped, true) {
		if r.Target == logs.ServiceKubelet {
			c.Says, c.For = c.Says+"; "+r.Saw, append(c.For, diagnose.Shows([]diagnose.Finding{r})...)
		}
	}
	return []diagnose.Case{c}
}

// kubeletRestarts is kubernetes-sigs/kubespray#8535.
func kubeletRestarts(f diagnose.Findings) []diagnose.Case {
	starts := diagnose.Keep(restarted(f), func(r diagnose.Finding) bool { // else it may have been stopped since
		age, known := r.Facts.Num(facts.Age)
		return known && age < stillStarting
	})
	refused := evidence.FromOutside(f, evidence.KubeletPort).Refused
	if len(starts) == 0 || len(refused)+len(evidence.NotPlaced(f, facts.ReasonKubelet)) == 0 {
		return nil
	}
	weight := diagnose.Strong
	if len(refused) > 0 {
		weight = diagnose.Proof
	}
	return []diagnose.Case{{
		Says: "the kubelet on {node} exits soon after each start: it" + strings.TrimPrefix(starts[0].Saw, "the kubelet"),
		For: slices.Concat(diagnose.Clues(weight, starts), diagnose.Hints(refused),
			diagnose.Hints(evidence.NotPlaced(f, facts.ReasonKubelet))),
		// It may have recovered since.
		Against: diagnose.Suggests(evidence.KubeletHere(f).Ok), Covers: append(diagnose.Covers(facts.CheckNodeReady),
			evidence.KubeletGone...),
	}}
}

// stillStarting is how many seconds ago a kubelet that keeps exiting has started at most: systemd waits ten, and more
// each time on some distributions.
const stillStarting = 120

// restarted is the API's answer that the kubelet has started too often lately.
func restarted(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(f.Bad(facts.CheckNodeReady), diagnose.About("kubelet"))
}

// kubeletFrozen is a kubelet whose process is there and does nothing.
func kubeletFrozen(f diagnose.Findings) []diagnose.Case {
	here, there := evidence.KubeletHere(f), evidence.FromOutside(f, evidence.KubeletPort)
	lease, over := f.Bad(facts.CheckNodeLease), f.Failed(facts.CheckNodeLease)
	contradicted, _ := evidence.Witnesses(f)
	lives, mute := kubeletLives(f), speaks(there.Open, false)
	c := diagnose.Case{Covers: evidence.KubeletGone}
	switch {
	case len(here.Silent) > 0 && len(here.Ok) == 0:
		if len(lives) > 0 {
			return nil
		}
		c.Says = "the kubelet on {node} accepts connections and answers no request: it is frozen" + evidence.Since(f)
		c.For = slices.Concat(diagnose.Proves(here.Silent), diagnose.Hints(over),
			diagnose.Suggests(evidence.NotPlaced(f, facts.ReasonKubelet)))
		c.Against = slices.Concat(diagnose.Suggests(diagnose.Good(f, facts.CheckNodeLease)),
			diagnose.Hints(f.Failed(host.NodeLoad.ID)))
	case len(here.Ill) > 0:
		c.Says = "the kubelet on {node} runs, and says itself that it is not well: " + here.Ill[0].Saw
		c.For = diagnose.Suggests(here.Ill)
	case here.Answered() || len(there.Open) == 0 || len(over)+min(len(lease), len(mute)) == 0 || len(lives) > 0:
		return nil
	case len(mute) > 0:
		c.Says = "the kubelet's port on {node} accepts connections and answers no request" + saying(mute) +
			", and the kubelet has not reported" + evidence.Since(f) + ": it is frozen"
		c.For, c.Against = slices.Concat(diagnose.Suggests(lease), diagnose.Suggests(mute)), diagnose.Hints(contradicted)
	default:
		c.Says = "the kubelet's port on {node} accepts connections" + saying(there.Open) +
			" and the kubelet has not reported" + evidence.Since(f) + ": it is frozen, or cut off from the API"
		c.For, c.Against = slices.Concat(diagnose.Suggests(lease), diagnose.Hints(there.Open)), diagnose.Hints(contradicted)
	}
	return []diagnose.Case{c}
}

// kubeletCutOff is a kubelet that is well and whose reports do not arrive.
func kubeletCutOff(f diagnose.Findings) []diagnose.Case {
	here, there := evidence.KubeletHere(f), evidence.FromOutside(f, evidence.KubeletPort)
	lease := f.Failed(facts.CheckNodeLease)
	contradicted, _ := evidence.Witnesses(f)
	lives := kubeletLives(f)
	unreached := evidence.ToServers(f.Failed(datastore.DatastoreLatency.ID))
	c := diagnose.Case{Covers: append(diagnose.Covers(datastore.DatastoreLatency.ID), evidence.KubeletGone...)}
	switch {
	case len(lease) == 0, len(evidence.StartsPods(f)) > 0: // then see kubelet-refused
		return nil
	case len(here.Ok) > 0 && len(here.Silent) == 0 && len(here.Refused) == 0:
		c.Says = "the kubelet on {node} works, and the API server has had no report of it" + evidence.Since(f)
		if len(unreached) > 0 {
			c.Says += "; from this node, " + unreached[0].Target + ": " + unreached[0].Saw
		}
		if says := evidence.ServiceWrites(f, logs.ServiceKubelet, logs.SaysNoAPI, logs.SaysUnauthorized,
			logs.SaysCertificate, logs.SaysAuthority); len(says) > 0 {
			c.Says += "; " + says[0].Saw
			c.For = diagnose.Hints(says)
		}
		c = deadConnection(f, c)
		// That it is cut off is known where its way is seen broken; else the API may refuse what it writes.
		c.For = slices.Concat(diagnose.Suggests(here.Ok[:1]), diagnose.Shows(lease), diagnose.Hints(unreached),
			diagnose.Hints(evidence.NotPlaced(f, facts.ReasonKubelet)), c.For)
		c.Against = diagnose.Suggests(f.Failed(host.NodeClock.ID)) // then each certificate looks old to the other
	case len(lives) > 0 && len(here.Ill)+len(here.Refused)+len(there.Refused) == 0:
		c.Says = "the kubelet on {node} answers, and the API server has had no report of it" + evidence.Since(f) +
			": its way to the API server is broken, or its certificate or credentials are refused there"
		c.For = slices.Concat(diagnose.Suggests(lives), diagnose.Suggests(lease), diagnose.Hints(unreached))
	case !here.Answered() && len(there.Open) > 0 && len(speaks(there.Open, false)) == 0:
		c.Says = "the kubelet's port on {node} accepts connections" + saying(there.Open) +
			" and the kubelet has not reported" + evidence.Since(f) + ": it is cut off from the API, or frozen"
		c.For, c.Against = slices.Concat(diagnose.Suggests(lease), diagnose.Hints(there.Open)), diagnose.Hints(contradicted)
	default:
		return nil
	}
	return []diagnose.Case{c}
}

// nodeUnreachable is a node that is off, or as good as off.
func nodeUnreachable(f diagnose.Findings) []diagnose.Case {
	silent, heard := evidence.Witnesses(f)
	if len(silent) == 0 || len(evidence.Askers(heard)) > 1 {
		return nil
	}
	weight := diagnose.Strong
	if len(silent) == len(diagnose.Keep(silent, diagnose.Because("host-unreachable", "net-unreachable"))) &&
		len(f.Failed(facts.CheckNodeLease)) > 0 {
		weight = diagnose.Proof
	}
	c := diagnose.Case{
		Says: fmt.Sprintf("{node} answers none of its neighbours (%s)%s: the machine is off, or cut off from the network", strings.Join(evidence.Askers(silent), ", "), evidence.Since(f)),
		For: slices.Concat(diagnose.Clues(weight, silent), diagnose.Shows(f.Failed(facts.CheckNodeLease)),
			diagnose.Shows(f.Failed(facts.CheckNodeReady))),
		Against: slices.Concat(diagnose.Suggests(diagnose.Good(f, facts.CheckNodeLease)),
			diagnose.Proves(diagnose.Good(f, probe.CheckPlaced))),
		Covers: evidence.KubeletGone,
	}
	if len(heard) > 0 { // one of them is wrong, or something lies between
		c.For[0].Weight, c.Against = diagnose.Strong, append(c.Against, diagnose.Hints(heard)...)
		c.Says = fmt.Sprintf("{node} does not answer %s%s, and %s says that it does: it is cut off from a part of the network, or one of them does not say the truth",
			strings.Join(evidence.Askers(silent), ", "), evidence.Since(f), heard[0].Node)
	}
	return []diagnose.Case{c}
}
