package diagnose

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestWitnesses checks that one other node, or the pods of one namespace, give no certain cause, and that the sentence
// names this witness.
func TestWitnesses(t *testing.T) {
	t.Parallel()
	seen := func(node, from, check string) Finding {
		r := probe.Result{Check: check, Target: "b x", From: from, Status: probe.Fail, Saw: "bad"}
		return Finding{Node: node, Result: r}
	}
	own, peer, other := seen("b", "", "own"), seen("a", "", "felt"), seen("c", "", "felt")
	pod, second := seen("b", "shop/one", "felt"), seen("b", "shop/two", "felt")
	elsewhere := seen("b", "bank/one", "felt")
	const shop = "pods of namespace shop"
	// a does not answer b. Only together with a's own report could a have forged it.
	silent := seen("b", "", "silent")
	silent.Facts = probe.Facts{probe.FactNode: "a", probe.FactReason: "timeout"}
	lost := silent
	lost.Facts = probe.Facts{probe.FactNode: "a", probe.FactReceived: 0, probe.FactSent: 5}
	refused := silent
	refused.Facts = probe.Facts{probe.FactNode: "a", probe.FactReason: "refused"}
	both := func(a, b []Clue) []Clue { return append(a, b...) }
	for name, c := range map[string]struct {
		clues []Clue
		want  probe.Confidence
		only  string
	}{
		"the node itself":     {Proves([]Finding{own}), probe.High, ""},
		"one neighbour":       {Proves([]Finding{peer}), probe.Medium, "a"},
		"one neighbour twice": {Proves([]Finding{peer, peer}), probe.Medium, "a"},
		"two neighbours":      {Proves([]Finding{peer, other}), probe.High, ""},
		"a neighbour, and a hint here": {both(Proves([]Finding{peer}), Hints([]Finding{own})), probe.Medium,
			"a"},
		"a neighbour, and one beside": {both(Proves([]Finding{peer}), Shows([]Finding{own})), probe.Medium,
			"a"},
		"the node, and a hint there": {both(Suggests([]Finding{own}), Hints([]Finding{peer})), probe.High, ""},
		"a neighbour, and its silence": {both(Suggests([]Finding{peer}), Suggests([]Finding{silent})), probe.Medium,
			"a, and in its missing answers"},
		"a neighbour, and lost pings": {both(Suggests([]Finding{peer}), Suggests([]Finding{lost})), probe.Medium,
			"a, and in its missing answers"},
		"a neighbour that refuses":       {both(Suggests([]Finding{peer}), Suggests([]Finding{refused})), probe.High, ""},
		"a neighbour, another's silence": {both(Suggests([]Finding{other}), Suggests([]Finding{silent})), probe.High, ""},
		"proof here, and word of there":  {both(Proves([]Finding{silent}), Hints([]Finding{peer})), probe.High, ""},
		"the silence of a node alone":    {Proves([]Finding{silent}), probe.High, ""},
		"one pod":                        {Proves([]Finding{pod}), probe.Medium, shop},
		"two pods of one owner":          {Proves([]Finding{pod, second}), probe.Medium, shop},
		"pods of two namespaces":         {Proves([]Finding{pod, elsewhere}), probe.High, ""},
		"a pod, and the node":            {Proves([]Finding{pod, seen("b", "", "felt")}), probe.High, ""},
		"little of one neighbour":        {Hints([]Finding{peer}), probe.Low, "a"},
	} {
		rule := &Rule{ID: "r", Match: func(Findings) []Case { return []Case{{Says: "it is so", For: c.clues}} }}
		causes := Explain(Findings{Node: "b", All: []Finding{own, peer, other, pod, second, elsewhere}},
			Suite{Rules: []*Rule{rule}}).Causes
		if len(causes) != 1 || causes[0].Confidence != c.want {
			t.Errorf("%s: %+v", name, causes)
			continue
		}
		_, says, _ := strings.Cut(causes[0].Says, "it is so")
		if want := map[bool]string{true: "; seen only from " + c.only}[c.only != ""]; says != want {
			t.Errorf("%s: %q, want %q", name, says, want)
		}
	}
}
