package evidence

import (
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// NoWay is the reason of packets without a route.
const NoRoute = "net-unreachable"

// DiedAs returns the findings of packet-drops about this node with a place of one of these kinds. It omits findings
// that a route of table local explains.
func DiedAs(f diagnose.Findings, kinds ...string) []diagnose.Finding {
	return diagnose.Keep(f.Of(firewall.PacketDrops.ID), func(r diagnose.Finding) bool {
		return r.Node == f.Node && slices.Contains(kinds, r.Facts.Str(firewall.FactPlaceKind)) && !SourceTaken(f, r)
	})
}

// AtReversePath reports whether Calico's own reverse path check dropped the packets. That rule works as intended: it
// drops packets that do not arrive on the interface of the kernel's route to their source.
func AtReversePath(r diagnose.Finding) bool {
	return r.Facts.Str(firewall.FactPlaceKind) == firewall.PlaceCalico &&
		strings.HasSuffix(r.Facts.Str(firewall.FactRuleChain), "PREROUTING")
}

// SourceTaken reports whether packets were dropped because a known route or routing rule covers the pod that sent
// them. The kernel then expects their source elsewhere: it drops them, or Calico's reverse path check does.
func SourceTaken(f diagnose.Findings, r diagnose.Finding) bool {
	kind := r.Facts.Str(firewall.FactPlaceKind)
	if !AtReversePath(r) && kind != firewall.PlaceRoute && kind != firewall.PlaceRPFilter {
		return false
	}
	return slices.ContainsFunc(f.Failed(route.RouteSpecial.ID),
		func(special diagnose.Finding) bool { return Takes(special, r) }) ||
		slices.ContainsFunc(f.Failed(route.RouteRules.ID), func(rule diagnose.Finding) bool {
			return rule.Facts.Str(probe.FactRule) != "" && diagnose.FamilyOf(rule) == diagnose.FamilyOf(r)
		})
}

// Takes reports whether a route of table local covers the sending pod.
func Takes(special, r diagnose.Finding) bool {
	return r.From != "" && special.Facts.Str(route.FactRouteType) == "local" &&
		slices.ContainsFunc(diagnose.ListOf(special, route.FactMeant), func(target string) bool {
			return strings.HasPrefix(target, r.From+" ")
		})
}

const MostNamed = 4 // differences that a cause's sentence lists

// StateSays returns a finding of node-state that shows only the relevant part.
func StateSays(r diagnose.Finding, text string) diagnose.Finding {
	r.Saw = text
	return r
}

// PathChecks are the checks that send packets between nodes or their pods.
var PathChecks = []string{
	bgp.BGPSession.ID, bgp.BGPPort.ID, route.RouteBlocks.ID, route.RouteCanReach.ID, link.NodePing.ID,
	link.NodeNeighbours.ID,
	pod.PodPing.ID, pod.PodTCP.ID, pod.PodMTU.ID,
	service.ServiceClusterIP.ID, service.ServiceNodePort.ID, dns.DNSCluster.ID, dns.DNSExternal.ID,
	firewall.PacketDrops.ID,
}

// PathFollows covers the failures that a broken path causes, in one family or (0) both. With a peer it covers only
// failures of the peer, and of Services that may have endpoints there. It omits refused connections, which reached
// their target, and targets on the node itself, which need no path.
func PathFollows(f diagnose.Findings, family int, peer string) []diagnose.Cover {
	var out []diagnose.Cover
	for _, check := range PathChecks {
		for _, r := range f.Bad(check) {
			of := diagnose.NodeOf(r)
			switch {
			case family != 0 && diagnose.FamilyOf(r) != 0 && diagnose.FamilyOf(r) != family:
			case check == link.NodeNeighbours.ID && of == "": // the table itself
			case of == f.Node && check != service.ServiceNodePort.ID:
			case peer != "" && of != "" && of != peer && of != f.Node:
			case check != bgp.BGPSession.ID && check != bgp.BGPPort.ID &&
				(diagnose.ReasonOf(r) == "refused" || diagnose.ReasonOf(r) == "rejected"):
			default:
				out = append(out, diagnose.Cover{Check: check, About: r.Target})
			}
		}
	}
	return append(append(out, unseenFromOutside(f, peer)...), unready(f)...)
}

// unseenFromOutside covers targets on this node that other nodes, or one peer, cannot reach: a broken path breaks both
// directions.
func unseenFromOutside(f diagnose.Findings, peer string) []diagnose.Cover {
	var out []diagnose.Cover
	for _, r := range f.Bad(link.NeighbourReach.ID) {
		summary := r.Target == "pods" || r.Target == "node-ports"
		if summary && (peer == "" || strings.Contains(r.Saw+" ", " from "+peer+" ")) {
			out = append(out, diagnose.Cover{Check: r.Check, About: r.Target})
		}
	}
	return out
}

// FollowsFrom reports whether a fault of another node (peer) may explain a failure of this node.
func FollowsFrom(peer, node string, r probe.Result) bool {
	f := diagnose.Findings{Node: node, All: []diagnose.Finding{{Node: node, Result: r}}}
	return len(PathFollows(f, 0, peer)) > 0
}

// unready covers a calico-node pod that runs but is not ready, for example without BGP sessions. A waiting or crashing
// pod has another reason.
func unready(f diagnose.Findings) []diagnose.Cover {
	var out []diagnose.Cover
	for _, r := range f.Bad(facts.CheckCalicoPod) {
		if r.Facts.Str(facts.APIReason) == "" {
			out = append(out, diagnose.Cover{Check: r.Check, About: r.Target})
		}
	}
	return out
}

// lostOverPods returns the failures towards pods on other nodes and towards endpoints of Services.
func lostOverPods(f diagnose.Findings) []diagnose.Finding {
	var out []diagnose.Finding
	for _, check := range []string{pod.PodPing.ID, pod.PodTCP.ID, pod.PodMTU.ID, service.ServiceClusterIP.ID,
		service.ServiceNodePort.ID, dns.DNSCluster.ID, dns.DNSExternal.ID} {
		out = append(out, diagnose.Keep(f.Bad(check), func(r diagnose.Finding) bool {
			return (diagnose.NodeOf(r) != f.Node || check == service.ServiceNodePort.ID) &&
				diagnose.ReasonOf(r) != "refused" && diagnose.ReasonOf(r) != "rejected"
		})...)
	}
	return out
}

// OverPods covers the findings of lostOverPods.
func OverPods(f diagnose.Findings) []diagnose.Cover {
	var out []diagnose.Cover
	for _, r := range lostOverPods(f) {
		out = append(out, diagnose.Cover{Check: r.Check, About: r.Target})
	}
	return out
}

// The checks that use the network, by the sender of the packets.
var (
	PodPaths     = []string{pod.PodPing.ID, pod.PodTCP.ID}
	ServicePaths = []string{service.ServiceClusterIP.ID, service.ServiceNodePort.ID, dns.DNSCluster.ID}
	NodePaths    = []string{link.NodePing.ID, bgp.BGPSession.ID}
	ApiPaths     = []string{datastore.DatastoreLatency.ID}
	AllPaths     = slices.Concat(PodPaths, ServicePaths, NodePaths, ApiPaths)
)

// BadPaths returns the failures of some checks, in one family or (0) both.
func BadPaths(f diagnose.Findings, family int, of []string) []diagnose.Finding {
	var out []diagnose.Finding
	for _, check := range of {
		out = append(out, diagnose.Keep(f.Bad(check), func(r diagnose.Finding) bool {
			return family == 0 || diagnose.FamilyOf(r) == 0 || diagnose.FamilyOf(r) == family
		})...)
	}
	return out
}

// pathLists holds the lists of checks that a selection can use by name.
var pathLists = map[string][]string{
	"pod-paths": PodPaths, "service-paths": ServicePaths, "all-paths": AllPaths, "path-checks": PathChecks,
}

// checksOf replaces the name of a list with its checks.
func checksOf(names []string) []string {
	var out []string
	for _, name := range names {
		if list, is := pathLists[name]; is {
			out = append(out, list...)
			continue
		}
		out = append(out, name)
	}
	return out
}

// Refusing matches a firewall rule that drops or rejects, in node-state's format: family, table, chain, the rule.
var Refusing = regexp.MustCompile(`^(?:legacy )?(\S+) (\S+) (\S+): (.*\b(?:drop|reject))$`)

// LostTowards returns the failures of packets from this node to another node and its pods, by checks that fail only for
// lost packets.
func LostTowards(f diagnose.Findings, node string) []diagnose.Finding {
	var out []diagnose.Finding
	for _, check := range []string{pod.PodTCP.ID, pod.PodPing.ID, pod.PodMTU.ID, link.NodePing.ID,
		bgp.BGPPort.ID, service.ServiceNodePort.ID, dns.DNSCluster.ID} {
		out = append(out, diagnose.Keep(f.Bad(check), func(r diagnose.Finding) bool {
			return diagnose.NodeOf(r) == node && (check != dns.DNSCluster.ID || diagnose.ReasonOf(r) == "timeout")
		})...)
	}
	return out
}

// Pinged sorts the pinged nodes into silent and live nodes. seen has the findings of each node.
func Pinged(f diagnose.Findings) (silent, lives []string, seen map[string][]diagnose.Finding) {
	seen = map[string][]diagnose.Finding{}
	var order []string
	for _, r := range f.Of(link.NodePing.ID) {
		if node := diagnose.NodeOf(r); node != "" && r.From == "" && diagnose.IsAnswered(r.Status) {
			if len(seen[node]) == 0 {
				order = append(order, node)
			}
			seen[node] = append(seen[node], r)
		}
	}
	for _, node := range order {
		if slices.ContainsFunc(seen[node], func(r diagnose.Finding) bool {
			return Arrived(r) ||
				r.Facts[probe.FactLives] == true
		}) {
			lives = append(lives, node)
		} else {
			silent = append(silent, node)
		}
	}
	return silent, lives, seen
}

// firsts returns the first finding about each given node.
func firsts(nodes []string, about map[string][]diagnose.Finding) []diagnose.Finding {
	var out []diagnose.Finding
	for _, node := range nodes {
		out = append(out, about[node][0])
	}
	return out
}

// Arrived reports whether any packet of a ping came back.
func Arrived(r diagnose.Finding) bool { n, _ := r.Facts.Num(probe.FactReceived); return n > 0 }

// PodsOn returns the pings from this node to another node's pods in one family: the lost pings and the answered pings.
func PodsOn(f diagnose.Findings, node string, family int) (lost, answer []diagnose.Finding) {
	for _, r := range f.Of(pod.PodPing.ID) {
		switch {
		case r.From != "" || diagnose.NodeOf(r) != node || diagnose.FamilyOf(r) != family:
		case r.Status == probe.Fail && diagnose.ReasonOf(r) == "":
			lost = append(lost, r)
		case r.Status == probe.OK:
			answer = append(answer, r)
		}
	}
	return lost, answer
}
