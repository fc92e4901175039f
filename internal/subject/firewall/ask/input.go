package ask

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// targetInput is the target of node-firewall's result if no foreign rule shuts other nodes out.
const targetInput = "from other nodes"

// maxSenders bounds the other nodes whose packets are followed through the rules: an allowlist may lack one of them.
const maxSenders = 200

// An arrival is the packets of one kind that this node must accept from the other nodes.
type arrival struct {
	proto string
	port  int
	// If Calico has rules in iptables, they accept these packets before later rules there see them.
	accepted bool
}

func (a arrival) String() string {
	if a.port == 0 {
		return "IP protocol " + a.proto
	}
	return fmt.Sprintf("%s port %d", strings.ToUpper(a.proto), a.port)
}

// foreignInput follows the packets that other nodes send to this node through all foreign rules, and reports the rule
// that certainly drops or rejects them, for each kind of packet. Rules whose conditions are not understood count as
// accepting.
func foreignInput(p *probe.Pass, links []kernel.Link) []probe.Result {
	hosts := false  // Calico may accept packets for a host endpoint before the other rules see them
	beside := false // Calico writes its rules into iptables, not into tables of its own
	all, err := kernel.Walls(p.Host, func(table, chain string) bool {
		beside = beside || slices.Contains(ownTables, table) && strings.HasPrefix(chain, "cali-INPUT")
		hosts = hosts || strings.Contains(chain, "cali-fh-") || strings.Contains(chain, "cali-fhfw-")
		return table != "nat" && node.ForeignChain(table, chain)
	})
	senders := sendersTo(p, links)
	if len(senders) == 0 || err != nil { // other results of this check report it
		return nil
	}
	var out []probe.Result
	for _, a := range arrivals(p, links) {
		out = append(out, shutOut(a, senders, slices.DeleteFunc(slices.Clone(all), func(w kernel.Wall) bool {
			return ofIPTables(w) && (hosts || a.accepted && beside)
		}))...)
	}
	if len(out) == 0 {
		out = append(out, probe.Found(probe.OK, "no foreign rule certainly drops what the other nodes send to this node").
			On(targetInput))
	}
	return out
}

// ofIPTables reports whether a chain is in a table of iptables, into which Calico also inserts its rules.
func ofIPTables(w kernel.Wall) bool {
	return w.Legacy || (w.Family == "ip" || w.Family == "ip6") && slices.Contains(ownTables, w.Table)
}

// ownTables are the tables of iptables.
var ownTables = []string{"filter", "nat", "mangle", "raw", "security"}

// arrivals returns the kinds of packets that this node's BIRD, tunnels and kubelet need.
func arrivals(p *probe.Pass, links []kernel.Link) []arrival {
	out := []arrival{{proto: "tcp", port: node.PortKubelet}}
	if set := p.Of(probe.KindBackend); len(set) > 0 && set[0].Name == "bird" {
		out = append(out, arrival{proto: "tcp", port: cmp.Or(set[0].Port, node.BGPDefaultPort)})
	}
	for _, l := range links {
		switch {
		case !l.Up:
		case l.Name == "vxlan.calico" && l.VXLAN != nil:
			out = append(out, arrival{proto: "udp", port: l.VXLAN.Port, accepted: true})
		case l.Name == "tunl0":
			out = append(out, arrival{proto: "ipip", accepted: true})
		}
	}
	return out
}

// sender is another node's address, and the path of its packets to this node.
type sender struct {
	node string
	flow
}

// sendersTo returns the other nodes, with the interface by which this node answers them.
func sendersTo(p *probe.Pass, links []kernel.Link) []sender {
	var out []sender
	for _, t := range p.Of(probe.KindNode) {
		to := t.Addr.Unmap()
		_, own := node.Uplink(p, links, node.Family(to))
		way, known := node.LookupFrom(to, netip.Addr{}, "")
		if !known || !own.IsValid() || way.Calicos || len(out) >= maxSenders {
			continue
		}
		out = append(out, sender{t.Node, flow{from: to, to: own.Addr().Unmap(), in: way.Device, here: true, opens: true}})
	}
	return out
}

// shutOut reports the rules that certainly drop or reject packets of other nodes, one result for each rule.
func shutOut(a arrival, senders []sender, all []kernel.Wall) []probe.Result {
	var order []string
	nodes, of := map[string][]string{}, map[string]kernel.Wall{}
	for _, s := range senders {
		s.proto, s.port = a.proto, a.port
		w, rule := s.shutBy(all)
		if rule == "" {
			continue
		}
		key := probe.OneLine(chainText(w) + " " + rule)
		if nodes[key] == nil {
			order, of[key] = append(order, key), w
		}
		if !slices.Contains(nodes[key], s.node) {
			nodes[key] = append(nodes[key], s.node)
		}
	}
	var out []probe.Result
	for _, rule := range order {
		from := nodes[rule]
		r := probe.Found(probe.Info, "a foreign rule drops packets to %s from %s: %s", a, namesOf(from, len(senders)), rule)
		r = r.With(firewall.FactInputRule, rule).With(firewall.FactSenders, from).
			With(firewall.FactRuleTable, of[rule].Table).With(probe.FactTransport, a.proto)
		if a.port > 0 {
			r = r.With(probe.FactPort, a.port)
		}
		target := fmt.Sprintf("%s %s", a, targetInput)
		if len(out) > 0 {
			target += fmt.Sprintf(" (%d)", len(out)+1)
		}
		out = append(out, r.On(target))
	}
	return out
}

// namesOf lists a few nodes, or says that all of several are meant.
func namesOf(nodes []string, all int) string {
	if len(nodes) == all && all > maxNamed {
		return fmt.Sprintf("each of %d nodes", all)
	}
	return someOf(nodes, "nodes")
}

const maxNamed = 3 // of several nodes or addresses

// someOf lists the first of some things.
func someOf(all []string, things string) string {
	if len(all) > maxNamed {
		return fmt.Sprintf("%s and %d more %s", strings.Join(all[:maxNamed], ", "), len(all)-maxNamed, things)
	}
	return strings.Join(all, ", ")
}

// shutBy returns the chain and the rule, or the policy, that certainly drop or reject a new packet to this node.
func (f flow) shutBy(all []kernel.Wall) (kernel.Wall, string) {
	family := map[bool]string{true: "ip", false: "ip6"}[f.to.Is4()]
	for _, hook := range []string{"prerouting", "input"} {
		for _, w := range all {
			if w.Hook != hook || w.Family != family && w.Family != "inet" {
				continue
			}
			rule, over := f.certain(all, w, 0, "drop", "reject")
			switch {
			case rule != "":
				return w, rule
			case !over && w.Policy == "drop":
				return w, w.Name + ": policy drop"
			}
		}
	}
	return kernel.Wall{}, ""
}

// chainText names the firewall and table of a chain.
func chainText(w kernel.Wall) string {
	switch {
	case w.Legacy:
		return inLegacy + " " + w.Table
	case ofIPTables(w):
		return inNFT + " " + w.Table
	}
	return inNative + " " + w.Family + " " + w.Table
}
