package report

import (
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"

	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
	"github.com/calico-probe/calico-probe/probe"
)

// TestNoted requires that every comment in a rule's commands is found as the shell finds it, so that no comment is
// pasted.
func TestNoted(t *testing.T) {
	t.Parallel()
	notes := 0
	for _, rule := range cause.All().Rules {
		for _, line := range commandsOf(rule.Fix) {
			command, note := noted(line)
			if note != "" {
				notes++
			}
			file, err := syntax.NewParser(syntax.KeepComments(true)).Parse(strings.NewReader(command), "")
			if err != nil {
				t.Errorf("%s: %v: %s", rule.ID, err, command)
				continue
			}
			syntax.Walk(file, func(n syntax.Node) bool {
				if c, ok := n.(*syntax.Comment); ok {
					t.Errorf("%s: a comment is left in %q: %s", rule.ID, command, c.Text)
				}
				return true
			})
		}
	}
	if notes == 0 {
		t.Error("no rule has a comment: the test checks nothing")
	}
}

func commandsOf(fix probe.Fix) []string {
	var out []string
	for _, block := range fix.Blocks() {
		out = append(out, block.Commands...)
	}
	return out
}
