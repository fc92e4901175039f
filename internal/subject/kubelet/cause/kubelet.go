package cause

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// restarted returns the API's findings that the kubelet started too often recently.
func restarted(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(f.Bad(facts.CheckNodeReady), diagnose.About("kubelet"))
}

// kubeletFrozen matches a kubelet whose process exists but does nothing.
//
// It uses the best view available: first answers on the node, then the neighbours' results for the kubelet's port. Any
// sign of a working kubelet (kubeletLives) rules the cause out.
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
		c.Says = "the kubelet on {node} accepts connections but answers no request: frozen" + evidence.Since(f)
		c.For = slices.Concat(diagnose.Proves(here.Silent), diagnose.Hints(over),
			diagnose.Suggests(evidence.NotPlaced(f, facts.ReasonKubelet)))
		c.Against = slices.Concat(diagnose.Suggests(diagnose.Good(f, facts.CheckNodeLease)),
			diagnose.Hints(evidence.Overloaded(f)))
	case len(here.Ill) > 0:
		c.Says = "the kubelet on {node} runs but reports that it is unhealthy: " + here.Ill[0].Saw
		c.For = diagnose.Suggests(here.Ill)
	case here.Answered() || len(there.Open) == 0 || len(over)+min(len(lease), len(mute)) == 0 || len(lives) > 0:
		return nil
	case len(mute) > 0:
		c.Says = "the kubelet's port on {node} accepts connections but answers no request" + saying(mute) +
			", and the kubelet has not reported" + evidence.Since(f) + ": it is frozen"
		c.For, c.Against = slices.Concat(diagnose.Suggests(lease), diagnose.Suggests(mute)), diagnose.Hints(contradicted)
	default:
		c.Says = "the kubelet's port on {node} accepts connections" + saying(there.Open) +
			" and the kubelet has not reported" + evidence.Since(f) + ": it is frozen, or cut off from the API"
		c.For, c.Against = slices.Concat(diagnose.Suggests(lease), diagnose.Hints(there.Open)), diagnose.Hints(contradicted)
	}
	return []diagnose.Case{c}
}

// kubeletCutOff matches a healthy kubelet whose reports do not arrive: it answers on the node or to neighbours, but its
// lease has expired.
func kubeletCutOff(f diagnose.Findings) []diagnose.Case {
	here, there := evidence.KubeletHere(f), evidence.FromOutside(f, evidence.KubeletPort)
	lease := f.Failed(facts.CheckNodeLease)
	contradicted, _ := evidence.Witnesses(f)
	lives := kubeletLives(f)
	unreached := evidence.ToServers(f.Failed(datastore.DatastoreLatency.ID))
	c := diagnose.Case{Covers: append(diagnose.Covers(datastore.DatastoreLatency.ID), evidence.KubeletGone...)}
	switch {
	case len(lease) == 0, len(evidence.StartsPods(f)) > 0: // see kubelet-refused
		return nil
	case len(here.Ok) > 0 && len(here.Silent) == 0 && len(here.Refused) == 0:
		c.Says = "the kubelet on {node} works, but the API server has received no report" + evidence.Since(f)
		if len(unreached) > 0 {
			c.Says += "; from this node, " + unreached[0].Target + ": " + unreached[0].Saw
		}
		if says := evidence.ServiceWrites(f, logs.ServiceKubelet, logs.FaultNoAPI, logs.FaultUnauthorized,
			logs.FaultCertificate, logs.FaultAuthority); len(says) > 0 {
			c.Says += "; " + says[0].Saw
			c.For = diagnose.Hints(says)
		}
		c = otherServer(f, deadConnection(f, c))
		// Only a failed dial (unreached) shows that the kubelet is cut off. Otherwise the API may reject its writes.
		c.For = slices.Concat(diagnose.Suggests(here.Ok[:1]), diagnose.Shows(lease), diagnose.Hints(unreached),
			diagnose.Hints(evidence.NotPlaced(f, facts.ReasonKubelet)), c.For)
		c.Against = diagnose.Suggests(f.Failed(host.NodeClock.ID)) // a wrong clock makes each side's certificate look expired
	case len(lives) > 0 && len(here.Ill)+len(here.Refused)+len(there.Refused) == 0:
		c.Says = "the kubelet on {node} answers, but the API server has received no report" + evidence.Since(f) +
			": the path to the API server is broken, or the API server rejects its certificate or credentials"
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

// otherServer adds that the kubelet's kubeconfig names an API server that does not answer, although the cluster's API
// servers answer this node.
func otherServer(f diagnose.Findings, c diagnose.Case) diagnose.Case {
	reached := evidence.ToServers(diagnose.Good(f, datastore.DatastoreLatency.ID))
	dead := diagnose.Keep(f.Of(kubelet.KubeletHealth.ID), func(r diagnose.Finding) bool {
		return r.Target == kubelet.TargetAuthority && r.Status == probe.Info
	})
	if len(dead) == 0 || len(reached) == 0 || ownServer(f, dead[0].Facts.Str(probe.FactAddress)) {
		return c
	}
	file, server := dead[0].Facts.Str(probe.FactFile), reached[0].Facts.Str(probe.FactAddress)
	c.Says = fmt.Sprintf("API server %s in the kubelet's %s on {node} accepts no connection, while %s answers this node; "+
		"the kubelet has not reported%s", dead[0].Facts.Str(probe.FactAddress), file, server, evidence.Since(f))
	c.For = append(c.For, diagnose.Proves(dead)...)
	c.FixName = "other-server"
	to, err := netip.ParseAddrPort(server)
	c.Args = map[string]diagnose.Arg{"file": diagnose.FileArg(file),
		"server": diagnose.CheckedArg(server, err == nil && to.Addr().Zone() == "", "SERVER")}
	return c
}

// ownServer reports whether an API server's address is on the node itself, or a cluster's API server that this run
// tested. An API server that does not run is then the fault, not the kubeconfig.
func ownServer(f diagnose.Findings, address string) bool {
	host, _, _ := net.SplitHostPort(address)
	at, err := netip.ParseAddr(host)
	return err == nil && at.IsLoopback() ||
		slices.ContainsFunc(f.Of(facts.CheckIPRegistered), func(r diagnose.Finding) bool {
			return diagnose.NodeOf(r) == "" && (r.Facts.Str(facts.Internal) == host || r.Facts.Str(facts.Registered) == host)
		}) ||
		slices.ContainsFunc(f.Of(datastore.DatastoreLatency.ID), func(r diagnose.Finding) bool {
			return r.Facts.Str(probe.FactAddress) == address
		})
}

// deadConnection adds that the kubelet's connection is dead although the path works (kubernetes/kubernetes#87615):
// kubelets before v1.20 keep such a connection until they restart.
func deadConnection(f diagnose.Findings, c diagnose.Case) diagnose.Case {
	says, reached := evidence.ServiceWrites(f, logs.ServiceKubelet, logs.FaultDeadConn),
		diagnose.Good(f, datastore.DatastoreLatency.ID)
	if len(says) == 0 || len(reached) == 0 || len(f.Failed(datastore.DatastoreLatency.ID)) > 0 {
		return c
	}
	c.Says += "; the API server is reachable from this node, but the kubelet keeps using a dead connection: " + says[0].Saw
	c.For = append(c.For, diagnose.Hints(says)...)
	c.FixName = "dead-connection"
	return c
}
