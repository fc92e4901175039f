package report

import (
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// TestCodeIsWhole has a Markdown parser give back what was put between backticks: a quote in
// place of a backtick makes another command of a quoted one.
func TestCodeIsWhole(t *testing.T) {
	t.Parallel()
	parser := goldmark.DefaultParser()
	for _, said := range []string{
		"plain", "`", "a`b", "`a", "a``", "``` ```",
		"kubectl get pod '`reboot`'", "`a` `b``c```d", "*a* <b> [c](d)", `\`,
	} {
		source := []byte("see " + Code(said) + " there\n")
		got, spans := "", 0
		err := ast.Walk(parser.Parse(text.NewReader(source)), func(n ast.Node, in bool) (ast.WalkStatus, error) {
			if span, ok := n.(*ast.CodeSpan); ok && in {
				spans++
				for c := span.FirstChild(); c != nil; c = c.NextSibling() {
					got += string(c.(*ast.Text).Segment.Value(source))
				}
			}
			return ast.WalkContinue, nil
		})
		if err != nil || spans != 1 || got != said {
			t.Errorf("%q became %q in %d spans (%v) of %s", said, got, spans, err, source)
		}
	}
}
