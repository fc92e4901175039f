package cause

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// foreignRoutingRule is projectcalico/calico#4662.
var foreignRoutingRule = &diagnose.Rule{
	ID: "foreign-ip-rule", Layer: diagnose.LayerKernel,
	Title: "a foreign routing rule diverts or rejects pod traffic",
	Doc: `A rule that comes before the main table ("ip rule") has packets from the node's own address, or from pods, looked up in a table of its own, in which Calico's routes are not: they leave by the gateway and are lost. Or it has them dropped or rejected ("unreachable"), and Calico's own reverse-path check drops what goes between those pods too. nm-cloud-setup makes such rules (table 30400 and up) for each address that a cloud gives the node; cloud-init, VPNs and policy routing made by hand do as well. The routes that everybody looks at are right all the while: the node itself does not reach its own pods, so the kubelet's probes fail and host-network clients time out, while pods reach each other.
Told from a wrong route by the kernel's own answer for the same packet with and without the sender's address.`,
	Fix: probe.Fix{
		Says: "Switch off what makes the rule, or have its table hold Calico's routes as well; then delete the rule.",
		Manifest: []string{
			"ssh {node} 'ip rule; ip route show table {table}'",
			"ssh {node} systemctl is-enabled tailscaled.service nm-cloud-setup.service nm-cloud-setup.timer",
		},
		OnlyIf: []probe.Conditional{
			{If: "Tailscale makes it (table 52) for an exit node, and you do not reach the node by that",
				Manifest: []string{"ssh {node} tailscale status", "ssh {node} sudo tailscale set --exit-node="}},
			{If: "Tailscale makes it for routes of others that it accepts, and you do not reach the node by one of them",
				Manifest: []string{"ssh {node} sudo tailscale set --accept-routes=false"}},
			{If: "nm-cloud-setup makes it (table 30400 and up)", Manifest: []string{"ssh {node} sudo systemctl disable --now nm-cloud-setup.service nm-cloud-setup.timer"}},
			{If: "nothing needs it any more", Manifest: []string{"ssh {node} sudo ip rule del pref {pref}"}},
		},
		Radius: "reading changes nothing; without the rule what it was made for (a second address, a VPN) takes the main table's way too",
	},
	RuledOut: []string{route.RouteBlocks.ID, route.RoutePods.ID, bgp.BGPSession.ID},
	Explains: []string{"service-path-broken", "dns-down", "dns-no-upstream", "peer-pods", "tunnel-filtered",
		"peer-nodeports", "bgp-waits", "pod-route-missing", "route-not-in-kernel", "dropped-here", "source-unexpected"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range f.Failed(route.RouteRules.ID) {
			if r.Facts.Str(probe.FactRule) == "" {
				continue
			}
			c := diagnose.Case{
				About: diagnose.FamilyName(diagnose.FamilyOf(r)), Family: diagnose.FamilyOf(r), Says: "on {node} " + r.Saw,
				For: diagnose.Proves([]diagnose.Finding{r}),
				Args: map[string]diagnose.Arg{"table": diagnose.NumberArg(diagnose.Num([]diagnose.Finding{r}, route.FactTable)),
					"pref": diagnose.NumberArg(diagnose.Num([]diagnose.Finding{r}, route.FactPref))},
			}
			if r.Facts[route.FactRejects] == true {
				c.Fix = evidence.DropRejectingRule
			}
			for _, check := range slices.Concat(evidence.PathChecks, []string{route.RouteBlocks.ID}) {
				for _, one := range f.Bad(check) {
					if diagnose.FamilyOf(one) == diagnose.FamilyOf(r) && diagnose.ReasonOf(one) != "refused" &&
						diagnose.ReasonOf(one) != "rejected" {
						c.Covers = append(c.Covers, diagnose.Cover{Check: check, About: one.Target})
					}
				}
			}
			out = append(out, c)
		}
		return out
	},
}
