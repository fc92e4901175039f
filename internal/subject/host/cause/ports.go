package cause

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// portTaken matches a process that holds a port which Calico needs (kubernetes/kubernetes#121530,
// projectcalico/calico#9638). It returns one case for each port.
func portTaken(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, id := range []string{felix.FelixLive.ID, felix.FelixReady.ID, overlay.OverlayTunnels.ID} {
		for _, r := range f.Bad(id) {
			port, who := r.Facts.Str(probe.FactHeldPort), r.Facts.Str(probe.FactHeldBy)
			if port == "" || who == "" {
				continue
			}
			if i := slices.IndexFunc(out, func(c diagnose.Case) bool { return c.About == port }); i >= 0 {
				out[i].For = append(out[i].For, diagnose.Clue{Finding: r})
				continue
			}
			c := diagnose.Case{About: port, For: diagnose.Proves([]diagnose.Finding{r}), Covers: evidence.FelixIll}
			what := "Felix's health port"
			if id == overlay.OverlayTunnels.ID {
				c.Covers, what = evidence.OverPods(f), "the port of "+r.Target
				c.Covers = append(c.Covers, diagnose.Covers(route.RouteBlocks.ID)...)
			}
			_, number, _ := strings.Cut(port, " ")
			n, _ := strconv.Atoi(number)
			c.Args = map[string]diagnose.Arg{"port": diagnose.NumberArg(float64(n))}
			c.Says = fmt.Sprintf("another process on {node} holds %s, %s: %s", port, what, who)
			out = append(out, c)
		}
	}
	return out
}
