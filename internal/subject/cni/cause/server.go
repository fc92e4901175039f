package cause

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// cniKubeconfigWrong matches a CNI plugin kubeconfig with a dead or untrusted API server. If the node reaches no API
// server elsewhere, the file is not at fault.
func cniKubeconfigWrong(f diagnose.Findings) []diagnose.Case {
	failed, reached := f.Failed(cni.CNIServer.ID), diagnose.Good(f, datastore.DatastoreLatency.ID)
	if len(failed) == 0 || len(reached) == 0 {
		return nil
	}
	r := failed[0]
	known := diagnose.Keep(f.Of(datastore.DatastoreLatency.ID), func(d diagnose.Finding) bool { return sameServer(r, d) })
	if diagnose.Because(cni.ReasonExpired, cni.ReasonNoName, cni.ReasonNoResolver)(r) ||
		slices.ContainsFunc(known,
			func(d diagnose.Finding) bool { return d.Facts.Str(probe.FactRole) == datastore.RoleConfigured }) {
		return nil
	}
	waiting := evidence.WaitingPods(f, facts.StartsCNI)
	used := len(waiting) > 0 || r.Facts[cni.FactActive] == true
	weight, context := diagnose.Strong, 0
	if used && !diagnose.Because(cni.ReasonName, cni.ReasonInvalid)(r) && len(known) == 0 {
		weight, context = diagnose.Proof, diagnose.Hint
	}
	return []diagnose.Case{{
		Says: "no new pod gets a network on {node}: " + kubeconfigFault(r, reached[0]),
		For:  slices.Concat(diagnose.Clues(weight, failed), diagnose.Clues(context, reached[:1]), diagnose.Shows(waiting)),
		// a wrong clock makes certificates invalid
		Against: diagnose.Suggests(f.Failed(host.NodeClock.ID)),
		Args:    map[string]diagnose.Arg{"file": diagnose.FileArg(r.Facts.Str(probe.FactFile))},
		Covers:  evidence.PodsUnconnected,
	}}
}

// sameServer reports whether datastore-latency connected to the server of the CNI plugin's kubeconfig.
func sameServer(r, latency diagnose.Finding) bool {
	at, err := url.Parse(r.Facts.Str(cni.FactServer))
	if err != nil {
		return false
	}
	return net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), "443")) == latency.Facts.Str(probe.FactAddress)
}

// kubeconfigFault describes what is wrong with the CNI plugin's kubeconfig; reached is a working API server.
func kubeconfigFault(r, reached diagnose.Finding) string {
	file, server := r.Facts.Str(probe.FactFile), r.Facts.Str(cni.FactServer)
	switch diagnose.ReasonOf(r) {
	case cni.ReasonAuthority:
		return fmt.Sprintf("the CNI plugin does not trust %s with the CA in %s: %s", server, file, r.Saw)
	case cni.ReasonName:
		return fmt.Sprintf("the CNI plugin does not trust %s in %s: either the file has a wrong name, or the API server's "+
			"certificate lacks this name: %s", server, file, r.Saw)
	case cni.ReasonInvalid:
		return fmt.Sprintf("the CNI plugin does not trust %s in %s: its certificate is invalid: %s", server, file, r.Saw)
	case cni.ReasonNotTLS:
		return fmt.Sprintf("%s names %s as API server, which does not speak TLS: %s", file, server, r.Saw)
	}
	return fmt.Sprintf("%s names %s as API server, which the node cannot reach (%s); the cluster's API server "+
		"%s answers", file, server, r.Saw, reached.Facts.Str(probe.FactAddress))
}
