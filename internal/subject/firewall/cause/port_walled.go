package cause

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate/diff"
	"github.com/calico-probe/calico-probe/probe"
)

// portRule matches a foreign firewall rule in node-state that drops or rejects one port.
var portRule = regexp.MustCompile(`^(?:legacy )?(\S+) (\S+) (\S+): .*\b(tcp|udp) dport (\d+)\b.*\b(?:drop|reject)$`)

// portWalled matches a foreign firewall rule against a port of the cluster.
func portWalled(f diagnose.Findings) []diagnose.Case {
	byTable := map[string]int{}
	var out []diagnose.Case
	for _, d := range diff.Differences(f) {
		m := portRule.FindStringSubmatch(d.Name)
		if d.Area != nodestate.AreaFirewall || m == nil || !d.In || d.InOther {
			continue
		}
		family, table, chain, transport := m[1], m[2], m[3], m[4]
		port, _ := strconv.Atoi(m[5])
		lost := unansweredAt(f, transport, port)
		if len(lost) == 0 {
			continue
		}
		i, known := byTable[family+" "+table]
		if !known {
			i = len(out)
			byTable[family+" "+table] = i
			out = append(out, diagnose.Case{About: family + " " + table,
				Says: fmt.Sprintf("a firewall rule that only {node} has blocks %s port %d: %s", strings.ToUpper(transport), port, d.Name),
				Args: map[string]diagnose.Arg{"chain": diagnose.CheckedArg(chain, diagnose.IsWord(chain), "CHAIN"),
					"table": diagnose.CheckedArg(table, diagnose.IsWord(table), "TABLE")}})
		}
		c := &out[i]
		weight := refuses(f, d, transport, port, lost)
		if !known {
			c.For = diagnose.Clues(weight, []diagnose.Finding{evidence.StateSays(d.Result, d.Text(f.Node))})
		} else {
			c.For[0].Weight = max(c.For[0].Weight, weight) // one table is one clue, whatever rules it has
			c.For = append(c.For, diagnose.Shows([]diagnose.Finding{evidence.StateSays(d.Result, d.Text(f.Node))})...)
		}
		c.For = append(c.For, diagnose.Shows(lost)...)
		for _, r := range lost {
			c.Covers = append(c.Covers, diagnose.Cover{Check: r.Check, About: r.Target})
		}
	}
	return out
}

// conditional matches words that restrict a rule beyond its port.
var conditional = regexp.MustCompile(`addr|[io]if|match|limit|ct state|not |sport|dport \S*[,-]`)

// refuses weighs a rule against a port. A rule with conditions may be for other packets. It is proof if the kernel
// rejects the node's own packets, and strong if the port answers on the baseline node, which lacks the rule.
func refuses(f diagnose.Findings, d diff.Difference, transport string, port int, lost []diagnose.Finding) int {
	_, rule, _ := strings.Cut(d.Name, ": ")
	rule = unmet(rule, lost)
	answers := slices.ContainsFunc(f.At(d.Other).All, func(r diagnose.Finding) bool {
		return r.Node == d.Other && r.Status == probe.OK && portOf(r, transport) == port
	})
	rejected := slices.ContainsFunc(lost, func(r diagnose.Finding) bool {
		return r.From == "" &&
			diagnose.ReasonOf(r) == "denied"
	})
	switch {
	case conditional.MatchString(rule):
		return diagnose.Hint
	case rejected:
		return diagnose.Proof
	case answers:
		return diagnose.Strong
	}
	return diagnose.Hint
}

// toAddress is a rule's condition on the destination. ofState is a condition on conntrack's state that a new connection
// meets.
var (
	toAddress = regexp.MustCompile(`\bdaddr (\S+)`)
	ofState   = regexp.MustCompile(`\bmatch ct\b|\bct state (?:\S*,)?new\b\S*`)
)

// unmet returns a rule without the conditions that all given lost connections meet.
func unmet(rule string, lost []diagnose.Finding) string {
	if m := toAddress.FindStringSubmatch(rule); m != nil && !slices.ContainsFunc(lost, func(r diagnose.Finding) bool {
		return !within(m[1], r.Target)
	}) {
		rule = strings.Replace(rule, m[0], "", 1)
	}
	return ofState.ReplaceAllString(rule, "")
}

// within reports whether a target's address equals a rule's address, or is in the rule's network.
func within(network, target string) bool {
	in, err := netip.ParsePrefix(network)
	if one, bad := netip.ParseAddr(network); bad == nil {
		in, err = netip.PrefixFrom(one, one.BitLen()), nil
	}
	at, bad := netip.ParseAddrPort(diagnose.LastWord(target))
	return err == nil && bad == nil && in.Contains(at.Addr().Unmap())
}

// wallReasons are the reasons of a failed connection that a rule may explain.
var wallReasons = []string{"denied", "refused", "timeout", "rejected", "host-unreachable"}

// unansweredAt returns the bad results of connections to a port. It returns nothing if this node gets an answer from
// that port on another machine.
func unansweredAt(f diagnose.Findings, transport string, port int) []diagnose.Finding {
	var lost []diagnose.Finding
	for _, r := range f.Where(func(r diagnose.Finding) bool { return portOf(r, transport) == port }) {
		switch {
		case diagnose.IsBad(r.Status) && slices.Contains(wallReasons, diagnose.ReasonOf(r)):
			lost = append(lost, r)
		case r.Status == probe.OK && r.From == "" && diagnose.NodeOf(r) != "" && diagnose.NodeOf(r) != f.Node:
			return nil
		}
	}
	return lost
}

// portOf returns the port of a result for a transport protocol, or 0 without a port.
func portOf(r diagnose.Finding, transport string) int {
	if of := r.Facts.Str(probe.FactTransport); of != "" && of != transport || of == "" && transport != "tcp" {
		return 0
	}
	if port, known := r.Facts.Num(probe.FactPort); known {
		return int(port)
	}
	for word := range strings.FieldsSeq(r.Target) {
		if _, text, err := net.SplitHostPort(word); err == nil {
			port, _ := strconv.Atoi(text)
			return port
		}
	}
	return 0
}
