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

// portTaken is kubernetes/kubernetes#121530 and projectcalico/calico#9638.
var portTaken = &diagnose.Rule{
	ID: "port-taken", Layer: diagnose.LayerCalico, Title: "another process holds a port that Calico needs on this node",
	Doc: `Calico has ports of its own on every node: TCP 9099 for Felix's health, UDP 4789 for VXLAN. A process that had one first keeps it. Felix then tries again and again ("address already in use"), while the kubelet's probe asks a stranger and calls calico-node not ready, or kills it; vxlan.calico is made and does not come up. The other process may have been there for long: it shows when calico-node starts anew, or when a pool is set to VXLAN.
Told from a Felix that hangs, and from a tunnel that somebody took down, by whose the socket is. BGP's port is a cause of its own (bird-port-taken).`,
	Fix: probe.Fix{
		Says: "Stop the other process or give it another port; Calico tries again by itself. Where it has to keep the port, give Calico another on every node.",
		Manifest: []string{
			"ssh {node} sudo ss -ltunp 'sport = :{port}'",
			"kubectl get felixconfigurations.crd.projectcalico.org default -o yaml | grep -e healthPort -e vxlanPort",
		},
		Radius: "reading changes nothing; stopping the process ends what it serves",
	},
	Explains: []string{"start-outlasts-budget", "felix-down", "felix-stuck", "tunnel-device"},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
				c.Says = fmt.Sprintf("another process of {node} has %s, %s: %s", port, what, who)
				out = append(out, c)
			}
		}
		return out
	},
}
