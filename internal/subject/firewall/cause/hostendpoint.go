package cause

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// hostEndpointBlocks matches a Calico policy that blocks access to the node itself. The policy acts before any
// listening program on the node, so it is in the kernel layer.
func hostEndpointBlocks(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Bad(facts.CheckHostEndpoints) {
		name := r.Facts.Str(facts.HostEndpoint)
		if name == "" || isolates(f, r) {
			continue
		}
		silent := evidence.FromOutside(f, evidence.KubeletPort).Silent
		lost := append(evidence.NotPlaced(f, facts.ReasonAttach), silent...)
		weight := diagnose.Hint
		if len(lost) > 0 && onAddress(f, r) && evidence.HasPort(r, facts.ShutPorts, evidence.KubeletPort) {
			weight = diagnose.Strong
		}
		c := diagnose.Case{For: append(diagnose.Clues(weight, []diagnose.Finding{r}), diagnose.Hints(lost)...)}
		if died := diagnose.Keep(evidence.DiedAs(f, firewall.PlacePolicy),
			diedAtHost(r.Facts.Str(facts.OnDevice))); len(died) > 0 {
			c = diedCase(f, died, diagnose.Proof, "")
			c.For = append(c.For, diagnose.Suggests([]diagnose.Finding{r})...)
		}
		c.Says = fmt.Sprintf("HostEndpoint %s blocks access to {node}: %s", name, r.Saw)
		switch shut := fmt.Sprint(r.Facts[facts.ShutPorts]) != "[]"; {
		case !shut && r.Facts[facts.ShutOut] == true:
			c.Says = fmt.Sprintf("HostEndpoint %s blocks outgoing traffic of {node}: %s", name, r.Saw)
		case !shut && r.Facts[facts.ShutLoopback] == true:
			c.Says = fmt.Sprintf("HostEndpoint %s blocks {node} from itself: %s", name, r.Saw)
		}
		out = append(out, atHostEndpoint(f, r, c))
	}
	return out
}

// hostEndpointIsolates matches a HostEndpoint of all interfaces, including lo (projectcalico/calico#4673).
func hostEndpointIsolates(f diagnose.Findings) []diagnose.Case {
	for _, r := range f.Bad(facts.CheckHostEndpoints) {
		if !isolates(f, r) {
			continue
		}
		silent := append(evidence.SilentAtHome(f), cutStreams(f)...)
		keeps := "keeps {node} from itself and others from it"
		if !evidence.HasPort(r, facts.ShutPorts, evidence.KubeletPort) {
			keeps = "keeps {node} from itself"
		}
		c := diagnose.Case{For: append(diagnose.Suggests([]diagnose.Finding{r}), diagnose.Hints(silent)...),
			Says: fmt.Sprintf("HostEndpoint %s %s: %s", r.Facts.Str(facts.HostEndpoint), keeps, r.Saw)}
		c.Covers = slices.Concat(evidence.FelixIll, diagnose.Covers(service.KubeProxyHealth.ID, link.NodePing.ID))
		for _, one := range silent {
			c.Covers = append(c.Covers, diagnose.Cover{Check: one.Check, About: one.Target})
		}
		return []diagnose.Case{atHostEndpoint(f, r, c)}
	}
	return nil
}

// isolates reports whether a HostEndpoint covers the loopback, and either nothing answers there or no stream from the
// container runtime arrives through it.
func isolates(f diagnose.Findings, r diagnose.Finding) bool {
	return r.Facts.Str(facts.OnDevice) == "*" && (len(evidence.SilentAtHome(f)) > 0 ||
		r.Facts[facts.ShutLoopback] == true && len(cutStreams(f)) > 0)
}

// cutStreams returns the access methods whose probe sent nothing back: the kubelet gets such a stream from the
// container runtime, at a loopback port.
func cutStreams(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(evidence.NotPlaced(f, facts.ReasonSilent), func(r diagnose.Finding) bool {
		return slices.Contains([]string{"pod", "ephemeral", "exec"}, r.Method)
	})
}

// atHostEndpoint adds the common parts of all HostEndpoint cases: its name, and the traffic that its policy denies.
func atHostEndpoint(f diagnose.Findings, r diagnose.Finding, c diagnose.Case) diagnose.Case {
	name, policy := r.Facts.Str(facts.HostEndpoint), r.Facts.Str(facts.ShutBy)
	c.About = name
	c.Args = map[string]diagnose.Arg{"hostendpoint": diagnose.CheckedArg(name,
		diagnose.IsName(strings.ReplaceAll(name, ".", "-")), "NAME")}
	c.Covers = append(c.Covers, diagnose.Covers(link.NeighbourReach.ID, kubelet.KubeletHealth.ID)...)
	for _, one := range f.Where(func(o diagnose.Finding) bool {
		ofPolicy := policy != "" && o.Facts.Str(probe.FactPolicy) == policy
		return diagnose.IsBad(o.Status) && (o.Check == service.ServiceNodePort.ID || ofPolicy)
	}) {
		c.Covers = append(c.Covers, diagnose.Cover{Check: one.Check, About: one.Target})
	}
	return c
}

// onAddress reports whether a HostEndpoint covers the interface with the node's address.
func onAddress(f diagnose.Findings, r diagnose.Finding) bool {
	device := r.Facts.Str(facts.OnDevice)
	uplink := func(o diagnose.Finding) bool { return o.Node == f.Node && o.Facts.Str(probe.FactInterface) == device }
	return r.Facts[facts.OnAddress] == true || device != "" && slices.ContainsFunc(f.Of(link.NodeUplink.ID), uplink)
}

// diedAtHost reports whether packet-drops found the drops at a HostEndpoint without an accepting policy: of one
// interface, of all interfaces ("*"), or of any kind ("").
func diedAtHost(device string) func(diagnose.Finding) bool {
	return func(r diagnose.Finding) bool {
		m := chainOfHost.FindStringSubmatch(r.Facts.Str(firewall.FactRuleChain))
		return m != nil && (device == "" || device == "*" || m[1] == device || strings.HasPrefix(m[1], "_"))
	}
}

// chainOfHost matches a Felix chain of a HostEndpoint: to it, from it, or through the node. It captures the interface,
// or the hash of a long name, which begins with _ (felix/rules).
var chainOfHost = regexp.MustCompile(`cali-(?:th|fh|thfw|fhfw)-(.+)$`)
