package cause

import (
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// kubeletPortBlocked is what makes kubectl exec, logs and attach hang too.
func kubeletPortBlocked(f diagnose.Findings) []diagnose.Case {
	attach := evidence.NotPlaced(f, facts.ReasonAttach)
	if len(attach) == 0 || len(rejected(f)) > 0 {
		return nil
	}
	weight, other := diagnose.Strong, diagnose.Keep(attach,
		func(r diagnose.Finding) bool { return r.Facts[facts.Answered] == true })
	if !slices.ContainsFunc(attach, func(r diagnose.Finding) bool { return !evidence.SilentExec(r) }) {
		weight = diagnose.Hint
	}
	c := diagnose.Case{
		Says: "pods start on {node} and the API server cannot talk to them: " + attach[0].Saw,
		For:  diagnose.Clues(weight, attach),
		// A kubelet that died in between, or that keeps exiting.
		Against: slices.Concat(diagnose.Suggests(f.Failed(facts.CheckNodeLease)), diagnose.Suggests(restarted(f))),
	}
	refused := diagnose.Keep(attach, func(r diagnose.Finding) bool { return saysRefused.MatchString(r.Saw) })
	// Where other nodes get an answer, a connection that hangs may also be one that the kubelet does not serve, because
	// its own connection to the API server hangs.
	open := diagnose.Hint
	if len(refused)+len(other) == 0 {
		open = 0
	}
	c.For = append(c.For, diagnose.Clues(open, evidence.FromOutside(f, evidence.KubeletPort).Open)...)
	switch {
	case len(other) > 0:
		c = answeredByOther(c, other)
	case len(refused) > 0:
		c.Says, c.Fix = "pods start on {node}, and its kubelet's port refuses the API server: "+refused[0].Saw, portRefused
	}
	if here := evidence.KubeletHere(f); len(here.Ok) > 0 { // a firewall on the node stands before its own questions too
		for _, r := range slices.Concat(here.Refused, here.Silent) {
			c.Covers = append(c.Covers, diagnose.Cover{Check: r.Check, About: r.Target})
		}
	}
	return []diagnose.Case{c}
}

// saysUnauthorized is how a kubelet answers whom it does not know, by way of the API server.
var saysUnauthorized = regexp.MustCompile(`unable to upgrade connection: Unauthorized`)

// rejected is where the kubelet turned the API server away.
func rejected(f diagnose.Findings) []diagnose.Finding {
	return evidence.InWords(evidence.NotPlaced(f, facts.ReasonAttach), saysUnauthorized)
}

// kubeletRejectsServer is a kubelet that does not know the API server.
func kubeletRejectsServer(f diagnose.Findings) []diagnose.Case {
	says := rejected(f)
	if len(says) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: "pods start on {node}, and its kubelet turns the API server away: " + says[0].Saw,
		For:  diagnose.Proves(says), Covers: diagnose.Covers(probe.CheckPlaced, probe.CheckAnswered),
	}}
}

// saysRefused is the API server's word that the connection was refused, rather than lost.
var saysRefused = regexp.MustCompile(`:10250: connect: connection refused`)

// portRefused is the fix of a port that is closed, or that a firewall rejects.
var portRefused = &probe.Fix{
	Says: "Check whether the kubelet listens at that address and port, whether the address is this node's, and which firewall rule rejects the connection.",
	Manifest: []string{"kubectl get node {node} -o wide  # the address that the API server dials",
		"ssh {node} sudo ss -ltnp sport = :10250",
		"ssh {node} 'sudo iptables-save | grep -e 10250 -e REJECT; sudo nft list ruleset | grep -n -e 10250 -e reject'"},
	Radius: evidence.OnlyReads,
}

// answeredByOther is a port that is not blocked: a connection opens there, and what answers is not what the
// API server wants.
func answeredByOther(c diagnose.Case, answered []diagnose.Finding) diagnose.Case {
	c.Says = "pods start on {node}, and what answers the API server at the kubelet's port is not that kubelet, or not trusted: " +
		answered[0].Saw
	c.For = append(diagnose.Hints(answered), c.For[1:]...)
	c.Fix = &probe.Fix{
		Says: "Find out what answers there: a Service with the node's address, something else that listens, or a certificate that the API server does not take.",
		Manifest: []string{"kubectl get --raw /api/v1/nodes/{node}/proxy/healthz  # the API server's own words",
			"kubectl get services -A -o wide | grep -w 10250",
			"kubectl get node {node} -o wide  # the address it dials"},
		Radius: evidence.OnlyReads,
	}
	return c
}

// kubeletSilent is as much as the API alone can say.
func kubeletSilent(f diagnose.Findings) []diagnose.Case {
	lease := f.Failed(facts.CheckNodeLease)
	late, placed := f.Bad(facts.CheckNodeLease), evidence.NotPlaced(f, facts.ReasonKubelet)
	if evidence.KubeletHere(f).Answered() || len(lease) == 0 && len(placed) == 0 {
		return nil
	}
	c := diagnose.Case{
		Says: "{node}'s kubelet has not reported" + evidence.Since(f) + ": it is dead, frozen or cut off, or the node is",
		For: slices.Concat(diagnose.Suggests(lease), diagnose.Hints(placed),
			diagnose.Hints(f.With(facts.CheckNodeReady, facts.APIReason, "NodeStatusUnknown"))), Covers: evidence.KubeletGone,
	}
	if len(lease) == 0 {
		c.Says = "{node}'s kubelet starts no pods"
		c.For = slices.Concat(diagnose.Hints(placed), diagnose.Hints(late))
	}
	return []diagnose.Case{c}
}

// saying names the neighbours that say something of the kubelet's port.
func saying(fs []diagnose.Finding) string {
	verb := " say)"
	all := evidence.Askers(fs)
	if len(all) == 1 {
		verb = " says)"
	}
	return " (as " + strings.Join(all, " and ") + verb
}
