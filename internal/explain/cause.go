package explain

import (
	"fmt"
	"io"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
)

// Cause prints everything about a cause that does not need a run.
func Cause(out io.Writer, r *diagnose.Rule) {
	fmt.Fprintf(out, "%s: %s\n\n%s\n\n", r.ID, r.Title, r.Doc)
	if r.Advice != "" {
		fmt.Fprintf(out, "before you change anything: %s\n\n", r.Advice)
	}
	fmt.Fprintf(out, "fix: %s\n", r.Fix.Says)
	for _, block := range r.Fix.Blocks() {
		if block.If != "" {
			fmt.Fprintf(out, "only if %s:\n", block.If)
		}
		for _, command := range block.Commands {
			fmt.Fprintf(out, "     %s\n", command)
		}
	}
	fmt.Fprintf(out, "touches: %s\n", r.Fix.Radius)
	if len(r.Explains) > 0 {
		fmt.Fprintf(out, "\nalso accounts for: %s\n", strings.Join(r.Explains, ", "))
	}
}
