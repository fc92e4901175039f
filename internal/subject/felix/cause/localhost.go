package cause

import (
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// localhostMissing is projectcalico/calico#5228.
var localhostMissing = &diagnose.Rule{
	ID: "localhost-missing", Layer: diagnose.LayerKernel,
	Title: "localhost does not resolve on the node, so Felix cannot open its health port",
	Doc: `Felix opens its health port at "localhost". calico-node's container has a copy of the node's /etc/hosts, made when it starts; where that has no line for localhost the name goes to the DNS servers of the node, which mostly know none: "listen tcp: lookup localhost on 10.96.0.10:53: no such host", again every second. Felix works, nothing listens on 9099, and the kubelet calls calico-node not ready and kills it in the end.
Told from a Felix that does not run by its own log, which goes on; from a localhost that leads to another machine by the missing answer.`,
	Fix: probe.Fix{
		Says: "Give the node's /etc/hosts its line for localhost back, then start calico-node anew: its container has a copy of the old file.",
		Manifest: []string{
			"ssh {node} grep -n localhost /etc/hosts  # wanted: 127.0.0.1 localhost",
			`ssh {node} "echo 127.0.0.1 localhost | sudo tee -a /etc/hosts"`,
			evidence.RestartCalico,
		},
		Radius: "the file: this node; " + evidence.RestartRadius,
	},
	Explains: []string{"start-outlasts-budget", "felix-down", "felix-stuck", "calico-ends"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		lines := diagnose.Keep(f.With(logs.CalicoLog.ID, logs.FactSignature, logs.SaysNoLocalhost),
			func(r diagnose.Finding) bool { return diagnose.IsBad(r.Status) })
		closed := evidence.OfLiveness(f, "refused")
		if len(lines) == 0 {
			return nil
		}
		return []diagnose.Case{{
			Says: "localhost has no address on {node}: " + lines[0].Facts.Str(logs.FactLine),
			For:  append(diagnose.Suggests(lines), diagnose.Hints(closed)...), Covers: evidence.FelixIll,
		}}
	},
}
