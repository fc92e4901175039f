package cause

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// nodeUninitialized is a node that a controller has not set up.
func nodeUninitialized(f diagnose.Findings) []diagnose.Case {
	born := diagnose.Keep(f.Bad(facts.CheckNodeTaints),
		func(r diagnose.Finding) bool { return len(diagnose.ListOf(r, facts.Unstarted)) > 0 })
	if len(born) == 0 {
		return nil
	}
	taints, waiting := diagnose.ListOf(born[0], facts.Unstarted), diagnose.ListOf(born[0], facts.WaitingFor)
	key, _, _ := strings.Cut(taints[0], "=")
	key, _, _ = strings.Cut(key, ":")
	c := diagnose.Case{
		Says:   fmt.Sprintf("{node} keeps taint %s, which its controller has not taken away", strings.Join(taints, ", ")),
		For:    diagnose.Suggests(born),
		Args:   map[string]diagnose.Arg{"taint": diagnose.CheckedArg(key, diagnose.IsWord(key), "TAINT")},
		Covers: diagnose.Covers(facts.CheckNodeTaints),
	}
	if absent := diagnose.ListOf(born[0], facts.WithoutAgent); len(absent) > 0 {
		c.Says = fmt.Sprintf("{node} keeps taint %s, and the agent that takes it away has no pod on it", strings.Join(absent, ", "))
		c.Fix = evidence.AgentTaintFix
	}
	if len(waiting) > 0 {
		c.Says += fmt.Sprintf(": it keeps pods off that wait for a node (%s)", strings.Join(waiting, ", "))
		c.For = diagnose.Proves(born)
	}
	return []diagnose.Case{c}
}

// nodeCordoned is a node that maintenance has left cordoned.
func nodeCordoned(f diagnose.Findings) []diagnose.Case {
	cordoned := diagnose.Keep(f.Of(facts.CheckNodeTaints),
		func(r diagnose.Finding) bool { return len(diagnose.ListOf(r, facts.Cordoned)) > 0 })
	if len(cordoned) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: fmt.Sprintf("{node} is cordoned, so pods that could run there wait for a node: %s",
			strings.Join(diagnose.ListOf(cordoned[0], facts.Cordoned), ", ")),
		For: diagnose.Suggests(cordoned), Covers: diagnose.Covers(facts.CheckNodeTaints),
	}}
}
