package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
)

// inputClosed matches a foreign rule that certainly drops packets from other nodes, on this node or on another one, if
// such packets are lost.
func inputClosed(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, node := range append([]string{f.Node}, f.Others()...) {
		byTable := map[string]int{}
		for _, r := range f.At(node).Of(firewall.NodeFirewall.ID) {
			rule := r.Facts.Str(firewall.FactInputRule)
			lost := lostAt(f, node, r)
			if rule == "" || len(lost) == 0 {
				continue
			}
			what, table := kindOf(r), r.Facts.Str(firewall.FactRuleTable)
			if i, known := byTable[table]; known { // one firewall is one cause, whatever it drops
				c := &out[i]
				c.Says = strings.Replace(c.Says, " from ", ", "+what+" from ", 1)
				c.For = append(c.For, diagnose.Shows([]diagnose.Finding{r}, lost)...)
				continue
			}
			byTable[table] = len(out)
			c := diagnose.Case{
				For:  append(diagnose.Proves([]diagnose.Finding{r}), diagnose.Shows(lost)...),
				Args: map[string]diagnose.Arg{"where": diagnose.NodeArg(node)},
			}
			senders, peer := diagnose.ListOf(r, firewall.FactSenders), ""
			if node != f.Node {
				c.About, c.Peer, peer = node, node, node
			} else if len(senders) == 1 {
				peer = senders[0]
			}
			c.Says = fmt.Sprintf("a firewall rule on %s drops %s from %s: %s", node, what,
				strings.Join(senders[:min(len(senders), evidence.MostNamed)], ", "), rule)
			c.Covers = evidence.PathFollows(f, 0, peer)
			out = append(out, c)
		}
	}
	return out
}

// kindOf describes the packets that a rule drops.
func kindOf(r diagnose.Finding) string {
	proto := strings.ToUpper(r.Facts.Str(probe.FactTransport))
	port, known := r.Facts.Num(probe.FactPort)
	switch {
	case !known:
		return proto
	case proto == "UDP":
		return fmt.Sprintf("VXLAN (UDP port %.0f)", port)
	case port == evidence.KubeletPort:
		return fmt.Sprintf("connections to the kubelet (TCP port %.0f)", port)
	}
	return fmt.Sprintf("BGP (TCP port %.0f)", port)
}

// lostAt returns the bad results that a rule on a node explains: about the senders whose packets it drops.
func lostAt(f diagnose.Findings, node string, r diagnose.Finding) []diagnose.Finding {
	senders := diagnose.ListOf(r, firewall.FactSenders)
	if node != f.Node && !slices.Contains(senders, f.Node) {
		return nil
	}
	between := func(l diagnose.Finding) bool { // this node and the other end
		other := diagnose.NodeOf(l)
		return node != f.Node && other == node || node == f.Node && slices.Contains(senders, other)
	}
	port, _ := r.Facts.Num(probe.FactPort)
	switch {
	case r.Facts.Str(probe.FactTransport) != "tcp": // both directions need it
		return diagnose.Keep(slices.Concat(f.Failed(pod.PodPing.ID), f.Failed(pod.PodTCP.ID)), between)
	case port == evidence.KubeletPort && node == f.Node:
		to := evidence.FromOutside(f, evidence.KubeletPort)
		return diagnose.Keep(slices.Concat(to.Silent, to.Refused),
			func(l diagnose.Finding) bool { return slices.Contains(senders, l.Node) })
	case port == evidence.KubeletPort:
		return nil
	}
	down := diagnose.Keep(f.Bad(bgp.BGPSession.ID), between)
	if len(down) == 0 { // it may be established from the other end
		return nil
	}
	if node != f.Node {
		return append(down, diagnose.Keep(f.Failed(bgp.BGPPort.ID), between)...)
	}
	return append(down, diagnose.Keep(f.Elsewhere(bgp.BGPPort.ID), func(l diagnose.Finding) bool {
		return l.Status == probe.Fail && diagnose.NodeOf(l) == f.Node
	})...)
}
