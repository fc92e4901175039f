package cause

import (
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
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
		c.Says, c.FixName = "pods start on {node}, and its kubelet's port refuses the API server: "+refused[0].Saw, "refused"
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

// saysRefused is the API server's word that the connection was refused, rather than lost.
var saysRefused = regexp.MustCompile(`:10250: connect: connection refused`)

// answeredByOther is a port that is not blocked: a connection opens there, and what answers is not what the
// API server wants.
func answeredByOther(c diagnose.Case, answered []diagnose.Finding) diagnose.Case {
	c.Says = "pods start on {node}, and what answers the API server at the kubelet's port is not that kubelet, or not trusted: " +
		answered[0].Saw
	c.For = append(diagnose.Hints(answered), c.For[1:]...)
	c.FixName = "other-answer"
	return c
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
