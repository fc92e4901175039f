package cause

import (
	"fmt"
	"net/netip"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// apiCutOff matches a node that cannot reach a healthy API server.
func apiCutOff(f diagnose.Findings) []diagnose.Case {
	direct, good := evidence.ToServers(f.Of(datastore.DatastoreLatency.ID)), 0
	var failed []diagnose.Finding
	for _, r := range direct {
		switch reason := diagnose.ReasonOf(r); {
		case r.Status != probe.Fail:
			good++
		case reason != "unhealthy" && reason != "alert":
			failed = append(failed, r)
		}
	}
	if len(failed) == 0 || good > 0 {
		return nil
	}
	at := failed[0].Facts.Str(probe.FactAddress)
	host := at
	if addr, err := netip.ParseAddrPort(at); err == nil {
		host = addr.Addr().String()
	}
	c := diagnose.Case{
		Says: fmt.Sprintf("this node cannot reach the API server: %s", failed[0].Saw),
		Args: map[string]diagnose.Arg{"server": diagnose.AddressArg(host)},
		For:  diagnose.Suggests(failed), Covers: evidence.WithoutDatastore,
	}
	c.For = append(c.For, diagnose.Shows(evidence.ToService(f.Failed(datastore.DatastoreLatency.ID)))...)
	answering := f.Elsewhere(datastore.DatastoreLatency.ID)
	for _, r := range f.All {
		if r.Method == "api" && diagnose.IsAnswered(r.Status) { // the API server answered this run
			answering = append(answering, r)
			break
		}
	}
	if len(answering) > 0 && answering[0].Status != probe.Fail || len(answering) > 1 {
		c.Says += ", although it answers others"
		c.For = append(c.For, diagnose.Clue{Finding: answering[len(answering)-1], Weight: diagnose.Hint})
	}
	if late := evidence.Starved(f); len(late) > 0 { // the client itself is slow
		c.Against = diagnose.Suggests(late[:1])
	}
	return []diagnose.Case{c}
}

// slowAnswer is the answer time, in ms, at which the API server or etcd counts as slow: a start of calico-node with
// twenty calls then takes twenty seconds.
const slowAnswer = 1000

// apiSlow matches a server that answers slowly although its TCP handshake is at least ten times faster.
func apiSlow(f diagnose.Findings) []diagnose.Case {
	var slow []diagnose.Finding
	for _, r := range f.Of(datastore.DatastoreLatency.ID) {
		connect, _ := r.Facts.Num(probe.FactConnect)
		if answer, ok := r.Facts.Num(datastore.FactAnswer); ok && answer > slowAnswer && connect < answer/10 {
			slow = append(slow, r)
		}
	}
	if len(slow) == 0 {
		return nil
	}
	c := diagnose.Case{Says: "the API server is slow, although the network to it is fast: " + slow[0].Saw, For: diagnose.Suggests(slow),
		Covers: diagnose.Covers(start.StartupBudget.ID, facts.CheckCalicoPod, facts.CheckCalicoBudget)}
	if load := evidence.Loads(f.Bad(host.NodeLoad.ID)); len(load) > 0 {
		c.Against = diagnose.Hints(load)
	}
	return []diagnose.Case{c}
}
