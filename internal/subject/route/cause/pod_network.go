package cause

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
)

// podNetworkBroken is a pod whose own network namespace is not as the CNI plugin left it.
func podNetworkBroken(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Bad("pod-uplink") {
		if r.From == "" {
			continue
		}
		of, name, _ := strings.Cut(r.From, "/")
		c := diagnose.Case{About: r.From, For: diagnose.Proves([]diagnose.Finding{r}),
			Says: fmt.Sprintf("pod %s on {node} has no working network of its own: %s", r.From, r.Saw),
			Args: map[string]diagnose.Arg{"of": diagnose.CheckedArg(of, diagnose.IsName(of), "NAMESPACE"),
				"name": diagnose.CheckedArg(name, diagnose.IsName(name), "POD")}}
		for _, one := range f.Where(func(o diagnose.Finding) bool { return diagnose.IsBad(o.Status) && o.From == r.From }) {
			c.Covers = append(c.Covers, diagnose.Cover{Check: one.Check, About: one.Target})
		}
		out = append(out, c)
	}
	return out
}
