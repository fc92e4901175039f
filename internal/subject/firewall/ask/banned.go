package ask

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// targetBanned is the target of node-firewall's result about rules that drop the packets of single pods.
const targetBanned = "single addresses"

// bannedPods looks for a foreign rule that drops all packets from or to single addresses in Calico's IP pools. Programs
// that ban addresses (CrowdSec, fail2ban) create such rules, and so did a policy engine that was removed. The pings of
// the other checks do not cover every pod.
func bannedPods(p *probe.Pass) (probe.Result, bool) {
	var pools []netip.Prefix
	for _, t := range p.Of(probe.KindPool) {
		if pool, err := netip.ParsePrefix(t.Name); err == nil {
			pools = append(pools, pool)
		}
	}
	all, err := kernel.Walls(p.Host, func(table, chain string) bool {
		return table != "nat" && node.ForeignChain(table, chain)
	})
	if len(pools) == 0 || err != nil { // other results of this check report it
		return probe.Result{}, false
	}
	for _, w := range reachedByAll(all) {
		for _, rule := range w.Rules {
			found := narrowed(rule)
			if found.does != "drop" && found.does != "reject" {
				continue
			}
			banned, err := singled(w, found.list, pools)
			switch {
			case err != nil:
				return node.Unseen(err), true
			case len(banned) == 0:
				continue
			}
			text := probe.OneLine(fmt.Sprintf("%s %s: %s", chainText(w), w.Name, rule))
			r := probe.Found(probe.Warn, "a foreign rule drops all packets of %s, in Calico's pools: %s",
				someOf(banned), text)
			first, _, _ := strings.Cut(banned[0], "-")
			return r.With(firewall.FactBanned, first).With(firewall.FactBanRule, text).
				With(firewall.FactRuleTable, w.Table).With(firewall.FactRuleChain, w.Name), true
		}
	}
	return probe.Result{}, false
}

// someOf lists a few addresses.
func someOf(addrs []string) string {
	const most = 3
	if len(addrs) > most {
		return fmt.Sprintf("%s and %d more addresses", strings.Join(addrs[:most], ", "), len(addrs)-most)
	}
	return strings.Join(addrs, ", ")
}

// reachedByAll returns the chains that the kernel calls itself, and those to which rules without conditions jump.
func reachedByAll(all []kernel.Wall) []kernel.Wall {
	out := slices.DeleteFunc(slices.Clone(all), func(w kernel.Wall) bool { return w.Hook == "" })
	for i := 0; i < len(out); i++ {
		for _, rule := range out[i].Rules {
			found := narrowed(rule)
			at := chainNamed(all, out[i], found.to)
			again := func(w kernel.Wall) bool { return at >= 0 && w.Name == found.to && chainText(w) == chainText(all[at]) }
			if at >= 0 && found.list == "" && !slices.ContainsFunc(out, again) {
				out = append(out, all[at])
			}
		}
	}
	return out
}

// narrowing is a rule whose only condition may be one list of addresses.
type narrowing struct {
	list     string // after saddr or daddr, "" = no condition
	does, to string // as in flow.meets
}

// narrowed parses a rule. It returns the zero value if the rule has other conditions, such as ports.
func narrowed(rule string) narrowing {
	var out narrowing
	words := strings.Fields(rule)
	for i := 0; i < len(words); i++ {
		arg := ""
		if i+1 < len(words) {
			arg = words[i+1]
		}
		switch word := words[i]; {
		case word == "counter", word == "log":
		case (word == "saddr" || word == "daddr") && out.list == "":
			out.list = arg
			i++
		case word == "iif", word == "oif", word == "family":
			i++
		case word == "jump", word == "goto":
			out.does, out.to = word, arg
			return out
		case slices.Contains(verdicts, word):
			out.does = word
			return out
		default:
			return narrowing{}
		}
	}
	return narrowing{}
}

// singled returns the single addresses and ranges in a rule's list that are inside one of the pools. A whole pool is no
// ban of single pods.
func singled(w kernel.Wall, list string, pools []netip.Prefix) ([]string, error) {
	poolOf := func(a netip.Addr) int {
		return slices.IndexFunc(pools, func(pool netip.Prefix) bool { return pool.Contains(a) })
	}
	inside := func(a netip.Addr) bool { return poolOf(a) >= 0 }
	var ranges []kernel.Span
	if name, isSet := strings.CutPrefix(list, "@"); isSet {
		var err error
		if ranges, err = kernel.NFTSet(w.Family, w.Table, name, inside); err != nil {
			return nil, fmt.Errorf("table %s: %w", w.Table, err)
		}
	} else {
		for one := range strings.SplitSeq(list, ",") {
			first, last, several := strings.Cut(one, "-")
			from, bad := netip.ParseAddr(first)
			to, worse := netip.ParseAddr(last)
			if !several {
				to, worse = from, bad
			}
			if bad == nil && worse == nil {
				ranges = append(ranges, kernel.Span{First: from, Last: to})
			}
		}
	}
	var out []string
	for _, s := range ranges {
		pool := poolOf(s.First)
		switch {
		case pool < 0 || pool != poolOf(s.Last) || s.First == pools[pool].Masked().Addr():
		case s.First == s.Last:
			out = append(out, s.First.String())
		default:
			out = append(out, s.First.String()+"-"+s.Last.String())
		}
	}
	return out, nil
}
