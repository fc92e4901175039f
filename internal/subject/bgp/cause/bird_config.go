package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// birdConfigRejected is a BIRD that names the line it cannot read.
var birdConfigRejected = &diagnose.Rule{
	ID: "bird-config-rejected", Layer: diagnose.LayerCalico, Title: "BIRD rejects the configuration that confd wrote",
	Doc: `confd renders BIRD's configuration from templates and from Calico's resources, and BIRD reads it whole or not at all. It logs the file, the line, the column and what is wrong there. One that starts exits: runit restarts it every second, and no BGP session comes up. One that runs keeps the configuration it has, and follows no change.
What is wrong is in the template or in a resource. Templates that are mounted over those of the image (a ConfigMap at /etc/calico/confd/templates) are of another version than BIRD after an upgrade: "You may set only variables" is a keyword that this BIRD does not have. A resource brings a value that BIRD cannot parse into a line of its own: BGPPeer, BGPConfiguration, BGPFilter, IPPool.
Told from a BIRD that is dead or frozen by the line in calico-node's log; from one without a configuration, which logs "Unable to open configuration file".`,
	Fix: probe.Fix{
		Says: "Correct what line {atline} of {file} is rendered from: a template mounted over the image's own, or the BGPPeer, BGPConfiguration, BGPFilter or IPPool whose value is in it.",
		Manifest: []string{
			"kubectl -n {namespace} exec {pod} -c calico-node -- cat {file} | head -{atline} | tail -1",
			"kubectl -n {namespace} get ds {daemonset} -o yaml | grep -n confd  # a mount there replaces the image's templates",
			"kubectl get bgppeers.crd.projectcalico.org,bgpconfigurations.crd.projectcalico.org,bgpfilters.crd.projectcalico.org,ippools.crd.projectcalico.org -o yaml",
		},
		OnlyIf: []probe.Conditional{{If: "the DaemonSet mounts templates of another version: remove that mount",
			Manifest: []string{"kubectl -n {namespace} edit daemonset {daemonset}"}}},
		Radius: "reading changes nothing; a corrected resource reaches BIRD on every node within seconds; a changed DaemonSet restarts calico-node on one node after the other",
	},
	RuledOut: []string{link.NodeUplink.ID, felix.FelixLive.ID},
	Explains: []string{"bird-dead", "bird-unfed", "bgp-peers-missing", "calico-ends", "bgp-restart-hold"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range evidence.Writes(f, logs.SaysBIRDConfig) {
			family := diagnose.FamilyOf(r)
			down := diagnose.Keep(deaf(f), func(s diagnose.Finding) bool { return diagnose.FamilyOf(s) == family })
			down = append(down, diagnose.Keep(evidence.BirdOf(f, bgp.BirdConfig.ID, family),
				func(c diagnose.Finding) bool { return c.Facts[bgp.FactRuns] == false })...)
			file := r.Facts.Str(probe.FactFile)
			line, _ := r.Facts.Num(logs.FactAtLine)
			c := diagnose.Case{About: diagnose.FamilyName(family), Family: family,
				For:    append(diagnose.Suggests([]diagnose.Finding{r}), diagnose.Hints(down)...),
				Args:   map[string]diagnose.Arg{"file": diagnose.FileArg(file), "atline": diagnose.NumberArg(line)},
				Covers: append(evidence.PathFollows(f, family, ""), diagnose.Covers(logs.CalicoErrors.ID, logs.CalicoLog.ID)...)}
			c.Says = fmt.Sprintf("BIRD for %s on {node} rejects line %.0f of %s: %s", diagnose.FamilyName(family), line, file, evidence.QuotedLine(r))
			if len(down) == 0 {
				c.Says += "; it keeps the configuration it had"
			} else {
				c.Covers = append(c.Covers, diagnose.Covers(bgp.BirdConfig.ID, bgp.BirdSocket.ID, bgp.BGPExpected.ID)...)
			}
			out = append(out, c)
		}
		return out
	},
}
