package diagnose

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// familyOf is the IP family a result is about, 0 when it is about both or none.
func familyOf(r Finding) int {
	if n, ok := r.Facts.Num(probe.FactFamily); ok {
		return int(n)
	}
	for name, f := range map[string]int{"IPv4": 4, "IPv6": 6} {
		if r.Check == facts.CheckIPRegistered && strings.HasPrefix(r.Target, name) {
			return f
		}
	}
	return 0
}

func familyName(f int) string { return map[int]string{4: "IPv4", 6: "IPv6"}[f] }

// nodeOf is the other node a result is about, "" when it is about none.
func nodeOf(r Finding) string { return r.Facts.Str(probe.FactNode) }

// reasonOf is a result's one word for why.
func reasonOf(r Finding) string { return r.Facts.Str(probe.FactReason) }

// at is the result of a check about one target, asked from the node itself.
func at(f Findings, check, target string) (Finding, bool) {
	for _, r := range f.Of(check) {
		if r.Target == target && r.From == "" {
			return r, true
		}
	}
	return Finding{}, false
}

// keep gives the findings that fit.
func keep(fs []Finding, fits func(Finding) bool) []Finding {
	var out []Finding
	for _, r := range fs {
		if fits(r) {
			out = append(out, r)
		}
	}
	return out
}

// listOf reads a list of texts, which is of another type after a trip over the wire.
func listOf(r Finding, key probe.Fact) []string {
	switch v := r.Facts[key].(type) {
	case []string:
		return v
	case []any:
		var out []string
		for _, one := range v {
			if text, ok := one.(string); ok {
				out = append(out, text)
			}
		}
		return out
	}
	return nil
}

// textsOf reads a map of texts in the same way.
func textsOf(r Finding, key probe.Fact) map[string]string {
	out := map[string]string{}
	switch v := r.Facts[key].(type) {
	case map[string]string:
		return v
	case map[string]any:
		for name, one := range v {
			if text, ok := one.(string); ok {
				out[name] = text
			}
		}
	}
	return out
}

// pathChecks are those that need packets to pass between nodes or their pods.
var pathChecks = []string{
	bgp.BGPSession.ID, bgp.BGPPort.ID, route.RouteBlocks.ID, route.RouteCanReach.ID, link.NodePing.ID,
	link.NodeNeighbours.ID,
	pod.PodPing.ID, pod.PodTCP.ID, pod.PodMTU.ID,
	service.ServiceClusterIP.ID, service.ServiceNodePort.ID, dns.DNSCluster.ID, dns.DNSExternal.ID,
	firewall.PacketDrops.ID,
}

// pathFollows are the bad results that a broken path leaves behind: in one family, and
// where a peer is named of that peer, and of the services that may be behind it. What
// is refused was reached, and what is on the node itself needs no path.
func pathFollows(f Findings, family int, peer string) []Cover {
	var out []Cover
	for _, check := range pathChecks {
		for _, r := range f.Bad(check) {
			of := nodeOf(r)
			switch {
			case family != 0 && familyOf(r) != 0 && familyOf(r) != family:
			case check == link.NodeNeighbours.ID && of == "": // the table itself
			case of == f.Node && check != service.ServiceNodePort.ID:
			case peer != "" && of != "" && of != peer && of != f.Node:
			case check != bgp.BGPSession.ID && check != bgp.BGPPort.ID &&
				(reasonOf(r) == "refused" || reasonOf(r) == "rejected"):
			default:
				out = append(out, Cover{Check: check, About: r.Target})
			}
		}
	}
	return append(append(out, unseenFromOutside(f, peer)...), unready(f)...)
}

// unseenFromOutside is what other nodes, or one of them, do not reach of this node: a broken path is so both ways.
func unseenFromOutside(f Findings, peer string) []Cover {
	var out []Cover
	for _, r := range f.Bad(link.NeighbourReach.ID) {
		summary := r.Target == "pods" || r.Target == "node-ports"
		if summary && (peer == "" || strings.Contains(r.Saw+" ", " from "+peer+" ")) {
			out = append(out, Cover{Check: r.Check, About: r.Target})
		}
	}
	return out
}

// FollowsFrom reports whether a fault of another node may explain a bad answer of a node, as far as both can see.
func FollowsFrom(peer, node string, r probe.Result) bool {
	f := Findings{Node: node, All: []Finding{{Node: node, Result: r}}}
	return len(pathFollows(f, 0, peer)) > 0
}

// unready is calico-node's pod running and not ready, as it is without sessions. One
// that waits or crashes has another reason.
func unready(f Findings) []Cover {
	var out []Cover
	for _, r := range f.Bad(facts.CheckCalicoPod) {
		if r.Facts.Str(facts.APIReason) == "" {
			out = append(out, Cover{Check: r.Check, About: r.Target})
		}
	}
	return out
}

// allBad says whether every one of some findings is bad, and that there are some.
func allBad(fs []Finding) bool {
	return len(fs) > 0 && !slices.ContainsFunc(fs, func(r Finding) bool { return !bad(r.Status) })
}
