package ask

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/span"
)

// targetBanned is the target of node-firewall's result about rules that drop the packets of single pods.
const targetBanned = "single addresses"

// bannedPods looks for a foreign rule that drops packets from or to single addresses in Calico's IP pools, whatever
// their protocol and interface. Programs that ban addresses, such as CrowdSec, create such rules. The pings of other
// checks do not cover every pod. It returns the first of these rules.
func bannedPods(p *probe.Pass) (probe.Result, bool) {
	var pools []netip.Prefix
	for _, t := range p.Of(probe.KindPool) {
		if pool, err := netip.ParsePrefix(t.Name); err == nil {
			pools = append(pools, pool)
		}
	}
	if len(pools) == 0 {
		return probe.Result{}, false
	}
	all, err := kernel.Walls(p.Host, func(table, chain string) bool {
		return table != "nat" && node.ForeignChain(table, chain)
	})
	if err != nil {
		return node.Unseen(err), true
	}
	w, rule, banned, err := firstBan(all, pools)
	switch {
	case len(banned) > 0:
		return ban(w, rule, banned), true
	case err != nil:
		return node.Unseen(err), true
	}
	return probe.Result{}, false
}

// firstBan returns the first rule that drops packets of addresses in the pools, with its chain and these addresses. The
// error is about a set that could not be read, which may hold others.
func firstBan(all []kernel.Wall, pools []netip.Prefix) (in kernel.Wall, rule string, banned []string, unread error) {
	for _, w := range reachedByAll(all) {
		for _, rule := range w.Rules {
			found := narrowed(rule)
			if found.does != "drop" && found.does != "reject" {
				continue
			}
			banned, err := singled(w, found.list, pools)
			if len(banned) > 0 {
				return w, rule, banned, nil
			}
			unread = cmp.Or(unread, err)
		}
	}
	return kernel.Wall{}, "", nil, unread
}

// ban returns the result about a rule that drops packets of some addresses.
func ban(w kernel.Wall, rule string, banned []string) probe.Result {
	text := probe.OneLine(fmt.Sprintf("%s %s: %s", chainText(w), w.Name, rule))
	first, _, _ := strings.Cut(banned[0], "-")
	return probe.Found(probe.Warn, "a foreign rule drops packets of %s, in Calico's pools: %s", someOf(banned, "addresses"), text).
		With(firewall.FactBanned, first).With(firewall.FactBanRule, text).
		With(firewall.FactRuleTable, w.Table).With(firewall.FactRuleChain, w.Name)
}

// reachedByAll returns the chains that the kernel calls itself, and those to which rules without conditions jump.
func reachedByAll(all []kernel.Wall) []kernel.Wall {
	out := slices.DeleteFunc(slices.Clone(all), func(w kernel.Wall) bool { return w.Hook == "" })
	for i := 0; i < len(out); i++ {
		for _, rule := range out[i].Rules {
			found := narrowed(rule)
			at := chainNamed(all, out[i], found.to)
			if at < 0 || found.list != "" {
				continue
			}
			to := all[at]
			if !slices.ContainsFunc(out, func(w kernel.Wall) bool {
				return w.Name == to.Name && w.Table == to.Table && w.Family == to.Family && w.Legacy == to.Legacy
			}) {
				out = append(out, to)
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

// singled returns the addresses and ranges in a rule's list that are inside one of the pools. A whole pool is no ban of
// single pods.
func singled(w kernel.Wall, list string, pools []netip.Prefix) ([]string, error) {
	poolOf := func(a netip.Addr) int {
		return slices.IndexFunc(pools, func(pool netip.Prefix) bool { return pool.Contains(a) })
	}
	inside := func(a netip.Addr) bool { return poolOf(a) >= 0 }
	var ranges []span.Span
	if name, isSet := strings.CutPrefix(list, "@"); isSet {
		var err error
		ranges, err = kernel.NFTSet(w.Family, w.Table, name, inside)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // elements without words here, or a set that is gone
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
				ranges = append(ranges, span.Span{First: from, Last: to})
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
