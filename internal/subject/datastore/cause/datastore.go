package cause

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// datastoreNotReady is Calico's own switch.
func datastoreNotReady(f diagnose.Findings) []diagnose.Case {
	off := f.With(facts.CheckDatastoreReady, facts.DatastoreReady, false)
	if len(off) == 0 {
		return nil
	}
	if migration := off[0].Facts.Str(facts.Migration); migration != "" {
		return []diagnose.Case{{
			Says: fmt.Sprintf("Calico's datastore is locked by DatastoreMigration %s, so no new pod gets a network on any node", migration),
			For:  diagnose.Proves(off), Fix: &migrating,
			Covers: append(diagnose.Covers(felix.FelixReady.ID, start.InitStall.ID), evidence.CalicoDown...),
		}}
	}
	return []diagnose.Case{{Says: "Calico's datastore is marked not ready (ClusterInformation, datastoreReady false), so no pod gets a network on any node", For: diagnose.Proves(off), Covers: append(diagnose.Covers(felix.FelixReady.ID, start.InitStall.ID), evidence.CalicoDown...)}}
}

// migrating is what to do while Calico moves its resources to another group: never to switch the old
// one on.
var migrating = probe.Fix{
	Says: "Let the migration end: see what it waits for. Never switch datastoreReady on by hand meanwhile.",
	Manifest: []string{
		"kubectl get datastoremigrations.migration.projectcalico.org -o wide  # phase and message",
		"kubectl -n {namespace} set env ds/{daemonset} -c calico-node --list | grep CALICO_API_GROUP  # the phase Converged waits for it to be projectcalico.org/v3",
		"kubectl -n {namespace} logs deploy/calico-kube-controllers --tail=50",
	},
	Radius: evidence.OnlyReads,
}

// apiCutOff is a node that does not reach an API server that is well.
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
		Says: fmt.Sprintf("this node does not reach the API server: %s", failed[0].Saw),
		Args: map[string]diagnose.Arg{"server": diagnose.AddressArg(host)},
		For:  diagnose.Suggests(failed), Covers: evidence.WithoutDatastore,
	}
	c.For = append(c.For, diagnose.Shows(evidence.ToService(f.Failed(datastore.DatastoreLatency.ID)))...)
	answering := f.Elsewhere(datastore.DatastoreLatency.ID)
	for _, r := range f.All {
		if r.Way == "api" && diagnose.IsAnswered(r.Status) { // it has just been asked
			answering = append(answering, r)
			break
		}
	}
	if len(answering) > 0 && answering[0].Status != probe.Fail || len(answering) > 1 {
		c.Says += ", while it answers others"
		c.For = append(c.For, diagnose.Clue{Finding: answering[len(answering)-1], Weight: diagnose.Hint})
	}
	if late := evidence.Starved(f); len(late) > 0 { // the client itself is slow
		c.Against = diagnose.Suggests(late[:1])
	}
	return []diagnose.Case{c}
}

// apiUnhealthy is an API server that says itself that it is ill.
func apiUnhealthy(f diagnose.Findings) []diagnose.Case {
	var ill []diagnose.Finding
	for _, r := range f.With(datastore.DatastoreLatency.ID, probe.FactReason, "unhealthy") {
		if diagnose.IsBad(r.Status) {
			ill = append(ill, r)
		}
	}
	if len(ill) == 0 {
		return nil
	}
	return []diagnose.Case{{Says: "the datastore answers that it is not well: " + ill[0].Saw, For: diagnose.Proves(ill),
		Covers: evidence.WithoutDatastore}}
}

// slowAnswer is from when an answer of the API server or etcd is slow, in ms: what a
// start of calico-node makes twenty of would take twenty seconds.
const slowAnswer = 1000

// apiSlow is a server that is near and slow.
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
	c := diagnose.Case{Says: "the API server is near and slow: " + slow[0].Saw, For: diagnose.Suggests(slow),
		Covers: diagnose.Covers(start.StartupBudget.ID, facts.CheckCalicoPod, facts.CheckCalicoBudget)}
	if load := evidence.Loads(f.Bad(host.NodeLoad.ID)); len(load) > 0 {
		c.Against = diagnose.Hints(load)
	}
	return []diagnose.Case{c}
}

// etcdRefuses is an etcd that does not take Calico's certificate.
func etcdRefuses(f diagnose.Findings) []diagnose.Case {
	refused := f.With(datastore.DatastoreLatency.ID, probe.FactReason, "certificate-refused")
	var old []diagnose.Finding
	for _, r := range f.Failed(datastore.DatastoreLatency.ID) {
		if r.Facts.Str(probe.FactExpires) != "" && diagnose.ReasonOf(r) == "" {
			old = append(old, r)
		}
	}
	if len(refused)+len(old) == 0 {
		return nil
	}
	all := append(old, refused...)
	return []diagnose.Case{{Says: "certificates of the datastore are not good: " + all[0].Saw, For: diagnose.Proves(all),
		Covers: evidence.WithoutDatastore}}
}

// typhaUnreachable is a Felix cut off from what it listens to.
func typhaUnreachable(f diagnose.Findings) []diagnose.Case {
	dead := f.Failed(datastore.TyphaReach.ID)
	if len(dead) == 0 {
		return nil
	}
	c := diagnose.Case{Says: fmt.Sprintf("none of %d Typhas answers this node: %s", len(dead), dead[0].Saw),
		For: diagnose.Suggests(dead), Covers: append(diagnose.Covers(felix.FelixReady.ID, bgp.BirdConfig.ID),
			evidence.CalicoDown...)}
	if f.Fine(datastore.DatastoreLatency.ID) { // so it is not the node's network as a whole
		c.For = append(c.For, diagnose.Hints(f.Of(datastore.DatastoreLatency.ID)[:1])...)
	}
	if late := evidence.Starved(f); len(late) > 0 {
		c.Against = diagnose.Suggests(late[:1])
	}
	return []diagnose.Case{c}
}

// cniTokenExpired is a credential that nobody has renewed.
func cniTokenExpired(f diagnose.Findings) []diagnose.Case {
	old := f.Failed(cni.CNIToken.ID)
	if len(old) == 0 {
		return nil
	}
	saw, _, _ := strings.Cut(old[0].Saw, ": ") // what follows of it stands before
	c := diagnose.Case{Says: "no new pod gets a network on {node}: " + saw, For: diagnose.Proves(old), Covers: evidence.PodsUnconnected}
	if skew := f.Failed(host.NodeClock.ID); len(skew) > 0 {
		c.Against = diagnose.Suggests(skew) // by a clock that is wrong
	}
	return []diagnose.Case{c}
}
