package cause

import (
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// kubeletPortBlocked matches a kubelet port that the API server cannot use: kubectl exec, logs and attach also fail.
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
		Says: "pods start on {node}, but the API server cannot reach them through the kubelet: " + attach[0].Saw,
		For:  diagnose.Clues(weight, attach),
		// The kubelet may have died since, or keeps exiting.
		Against: slices.Concat(diagnose.Suggests(f.Failed(facts.CheckNodeLease)), diagnose.Suggests(restarted(f))),
	}
	refused := diagnose.Keep(attach, func(r diagnose.Finding) bool { return saysRefused.MatchString(r.Saw) })
	// If other nodes get an answer, a hanging connection may have another reason: the kubelet's own connection to the API
	// server hangs. So the other nodes' answers support this cause only if the API server was refused or got a wrong
	// answer.
	open := diagnose.Hint
	if len(refused)+len(other) == 0 {
		open = 0
	}
	c.For = append(c.For, diagnose.Clues(open, evidence.FromOutside(f, evidence.KubeletPort).Open)...)
	switch {
	case len(other) > 0:
		c = answeredByOther(c, other)
	case len(refused) > 0:
		c.Says, c.FixName = "pods start on {node}, but the kubelet's port refuses the API server's connection: "+refused[0].Saw, "refused"
	}
	if here := evidence.KubeletHere(f); len(here.Ok) > 0 { // a firewall on the node blocks local requests too
		for _, r := range slices.Concat(here.Refused, here.Silent) {
			c.Covers = append(c.Covers, diagnose.Cover{Check: r.Check, About: r.Target})
		}
	}
	return []diagnose.Case{c}
}

// saysUnauthorized is the kubelet's answer to an unknown client, as the API server quotes it.
var saysUnauthorized = regexp.MustCompile(`unable to upgrade connection: Unauthorized`)

// rejected returns the findings in which the kubelet rejected the API server.
func rejected(f diagnose.Findings) []diagnose.Finding {
	return evidence.InWords(evidence.NotPlaced(f, facts.ReasonAttach), saysUnauthorized)
}

// saysRefused is the API server's error for a refused connection, as opposed to a lost one.
var saysRefused = regexp.MustCompile(`:10250: connect: connection refused`)

// answeredByOther rewrites the case for a port that is not blocked: it accepts connections, but the API server rejects
// the answering server.
func answeredByOther(c diagnose.Case, answered []diagnose.Finding) diagnose.Case {
	c.Says = "pods start on {node}, but the API server gets another program or an untrusted certificate at the kubelet's port: " +
		answered[0].Saw
	c.For = append(diagnose.Hints(answered), c.For[1:]...)
	c.FixName = "other-answer"
	return c
}

// saying names the neighbours that reported on the kubelet's port, in parentheses.
func saying(fs []diagnose.Finding) string {
	return " (as seen from " + strings.Join(evidence.Askers(fs), " and ") + ")"
}
