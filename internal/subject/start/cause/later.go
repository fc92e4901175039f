package cause

import (
	"fmt"
	"net"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/probe"
)

// breaksAtNextStart is a setting that the Felix that runs has not read.
var breaksAtNextStart = &diagnose.Rule{
	ID: "breaks-at-next-start", Layer: diagnose.LayerCalico, Later: true,
	Title: "a changed setting will break calico-node at its next start",
	Doc: `Felix reads where it is to answer its health port when it starts, and keeps that until it ends. FelixConfiguration's healthHost or healthPort was changed since, and calico-node's own probe does not read FelixConfiguration: 'calico-node -felix-live' knows FELIX_HEALTHHOST and FELIX_HEALTHPORT alone, and else asks localhost:9099. So nothing is wrong today, and the next start (an upgrade, a reboot, a drained node) ends with a Felix that is well at an address that nobody asks, and a kubelet that kills it again and again. That start gets the blame, weeks after the change.
Told from a Felix that does not run by asking it where it really listens.`,
	Fix: probe.Fix{
		Says: "Before calico-node starts anew: take the setting out of FelixConfiguration, or name the same in FELIX_HEALTHHOST and FELIX_HEALTHPORT of calico-node, which the probe reads too.",
		Manifest: []string{
			"kubectl get felixconfigurations.crd.projectcalico.org -o custom-columns=NAME:.metadata.name,HOST:.spec.healthHost,PORT:.spec.healthPort",
			"kubectl -n {namespace} set env ds/{daemonset} -c calico-node --list | grep FELIX_HEALTH",
		},
		OnlyIf: []probe.Conditional{
			{If: "the one called default has a port",
				Manifest: []string{`kubectl patch felixconfigurations.crd.projectcalico.org default --type json -p '[{"op":"remove","path":"/spec/healthPort"}]'`}},
			{If: "the one called default has a host",
				Manifest: []string{`kubectl patch felixconfigurations.crd.projectcalico.org default --type json -p '[{"op":"remove","path":"/spec/healthHost"}]'`}},
		},
		Radius: "reading changes nothing; a Felix that runs keeps its port when that setting changes",
	},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var seen []diagnose.Finding
		for _, id := range []string{felix.FelixLive.ID, felix.FelixReady.ID} {
			seen = append(seen, diagnose.Keep(f.Of(id),
				func(r diagnose.Finding) bool { return r.Facts.Str(felix.FactNextStart) != "" })...)
		}
		if len(seen) == 0 {
			return nil
		}
		next := seen[0].Facts.Str(felix.FactNextStart)
		if _, _, err := net.SplitHostPort(next); err != nil {
			next = "elsewhere"
		}
		return []diagnose.Case{{
			Says: fmt.Sprintf("Felix on {node} is well at %s, and will answer at %s from its next start on, where calico-node's probe does not ask", seen[0].Facts.Str(probe.FactAddress), next),
			For:  diagnose.Proves(seen),
		}}
	},
}
