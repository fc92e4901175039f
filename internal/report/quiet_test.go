package report

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestQuiet requires the result in the first line of a report without a headline, and the warnings of a preflight.
func TestQuiet(t *testing.T) {
	t.Parallel()
	warning := Located{Result: probe.Found(probe.Warn, "no SSH key is accepted")}
	warning.Check = "probe-access"
	result := Located{Method: "api", Result: probe.Found(probe.OK, "no taints")}
	result.Check = "node-taints"
	cut := Located{Result: probe.Found(probe.Unknown, Interrupted)}
	cut.Check = probe.CheckAnswered
	byNode, byPeer, byOther := cut, cut, cut
	byNode.Method, byPeer.Node, byOther.Check = "pod", "node-m", "neighbour-reach"
	const unsaid = "node-a: a run should work, but that is not certain: "
	for name, c := range map[string]struct {
		word    string
		wide    bool
		results []Located
		first   string
		holds   string
	}{
		"healthy": {WordHealthy, false, []Located{result}, "healthy on node-a: ", ""},
		"wide":    {WordHealthy, true, []Located{result}, "healthy on node-a: ", "no taints"},
		"ready": {WordReady, false, []Located{result, warning}, "ready on node-a: ",
			"probe-access: no SSH key"},
		"interrupted":         {WordIncomplete, false, []Located{cut}, "node-a: no verdict: the run was interrupted", ""},
		"a node that says so": {WordIncomplete, false, []Located{byNode}, unsaid, ""},
		"another node":        {WordIncomplete, false, []Located{byPeer}, "node-a: no verdict: 1 answer missing", ""},
		"another check":       {WordIncomplete, false, []Located{byOther}, unsaid, ""},
	} {
		counts := probe.Counts{}
		for _, r := range c.results {
			counts[r.Status]++
		}
		s := screen{wide: c.wide, Document: Document{Node: "node-a", Results: c.results,
			Verdict: &probe.Verdict{Word: c.word, Counts: counts}}}
		text := s.text()
		if !strings.HasPrefix(text, c.first) || !strings.Contains(text, c.holds) ||
			c.word != WordIncomplete && strings.Count(text, " on node-a: ") != 1 {
			t.Errorf("%s: %q", name, text)
		}
	}
}

// TestReadsOnlyWord requires that a probe is announced only if a command places one.
func TestReadsOnlyWord(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"calico-probe run --node node-a":       "reads only; places a probe",
		"calico-probe run --via local":         "reads only",
		"calico-probe preflight --node node-a": "reads only",
	} {
		if got := readsOnlyWord([]string{command}); got != want {
			t.Errorf("%s: %s", command, got)
		}
	}
}
