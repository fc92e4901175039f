package ask

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// nodeFirewallCheck binds firewall.NodeFirewall to the function that runs it.
var nodeFirewallCheck = answers.To(firewall.NodeFirewall, nodeFirewall)

// Facts of node-firewall.
const (
	factServices probe.Fact = "services_in" // list of the firewalls that contain kube-proxy's chains

	factChains probe.Fact = "chain_counts" // maps each firewall to the number of Calico's chains in it
)

// The firewalls of Linux.
const (
	inLegacy = "legacy iptables"
	inNFT    = "iptables-nft"
	inNative = "nftables"
)

// walls describes the firewalls of one address family.
type walls struct {
	calico   map[string]int // number of Calico's chains in each firewall
	used     []string       // firewalls that send forwarded packets to Calico's chains
	services []string       // firewalls that contain kube-proxy's chains
	drops    []kernel.Chain // chains that drop forwarded packets by default policy
	dropsIn  []string       // the firewall of each of these chains
	passes   []string       // chains that have the default policy drop and rules that accept pods
	refuses  []string       // chains of other owners with a rule that drops or rejects forwarded packets
	foreign  []string       // nftables tables of other owners
	unread   error          // for legacy iptables
}

func nodeFirewall(_ context.Context, p *probe.Pass) {
	all, err := kernel.Links()
	if err != nil {
		p.Report(node.Unseen(err))
		return
	}
	if node.EBPF(p, all) {
		p.Report(probe.Found(probe.Skip, "the data plane is eBPF, which does not use these rules"))
		return
	}
	others := func(c kernel.Chain) bool { return node.ForeignChain(c.Table, c.Name) }
	wanted := func(c kernel.Chain) bool { return node.WorthKeeping(c) || isForeign(c) || others(c) }
	chains, err := kernel.NFTChains(wanted, others)
	if err != nil {
		p.Report(node.Unseen(err))
		return
	}
	legacy, unread := kernel.LegacyChains(p.Host, "filter")
	pods := 0
	for _, d := range all {
		if node.IsPods(d) {
			pods++
		}
	}
	// Only Felix's settings show whether Felix writes such rules.
	known := len(p.Of(probe.KindFelix)) > 0 && p.Gaps[probe.KindFelix] == ""
	for _, f := range []int{4, 6} {
		w := wallsOf(f, chains, legacy)
		w.unread = unread
		w.sortOutAccepting(p, f)
		if f == 6 && len(w.calico) == 0 && !usesIPv6(p) {
			continue // if Calico uses one family, it might not write chains for the other
		}
		r := judgeWalls(w, pods, known)
		if r.Status == probe.Fail && len(w.used) == 0 {
			if seen := firewallFlushers(p.Host); len(seen) > 0 {
				r.Saw += "; processes that flush firewalls here: " + strings.Join(seen, ", ")
				r = r.With(firewall.FactFlushers, seen)
			}
		}
		p.Report(r.On(fmt.Sprintf("IPv%d", f)).With(probe.FactFamily, f))
	}
	if r, ok := foreignNAT(p); ok {
		p.Report(r.On(targetMasquerade))
	}
	for _, r := range foreignInput(p, all) {
		p.Report(r)
	}
	if r, ok := bannedPods(p); ok {
		p.Report(r.On(targetBanned))
	}
}

// usesIPv6 reports whether pods on this node have, or may get, IPv6 addresses.
func usesIPv6(p *probe.Pass) bool {
	return slices.ContainsFunc(p.Of(probe.KindLocal, probe.KindSelf), func(t probe.Target) bool {
		return t.Addr.IsValid() && node.Family(t.Addr) == 6
	})
}

// wallsOf groups the chains of an address family by firewall.
func wallsOf(family int, nft, legacy []kernel.Chain) walls {
	w := walls{calico: map[string]int{}}
	add := func(list *[]string, wall string) {
		if !slices.Contains(*list, wall) {
			*list = append(*list, wall)
		}
	}
	look := func(wall string, c kernel.Chain) {
		name := c.Name
		if wall == inNative && c.Table == "calico" { // filter-cali-FORWARD
			_, name, _ = strings.Cut(name, "-")
		}
		switch {
		case strings.HasPrefix(name, "cali-"):
			w.calico[wall]++
		case name == "KUBE-SERVICES", c.Table == "kube-proxy":
			add(&w.services, wall)
		}
		if c.Forward && slices.ContainsFunc(c.Jumps,
			func(to string) bool { return strings.HasSuffix(to, "cali-FORWARD") }) {
			add(&w.used, wall)
		}
		if c.Forward && c.Refuses && c.Table != "calico" && c.Table != "kube-proxy" {
			w.refuses = append(w.refuses, chainOf(c, wall))
		}
		if c.Forward && c.Drops {
			w.drops, w.dropsIn = append(w.drops, c), append(w.dropsIn, wall)
		}
	}
	for _, c := range legacy {
		if c.Family == family {
			look(inLegacy, c)
		}
	}
	for _, c := range nft {
		switch {
		case c.Family != family && c.Family != 0:
		case slices.Contains([]string{"filter", "nat", "mangle", "raw"}, c.Table) && c.Family != 0:
			look(inNFT, c)
		default:
			look(inNative, c)
			if isForeign(c) {
				add(&w.foreign, nftFamilies[c.Family]+" "+c.Table)
			}
		}
	}
	w.refusedBelow(family, nft)
	return w
}

// refusedBelow names chains of other owners that all forwarded packets reach and that drop or reject packets. It
// omits Docker's and kube-proxy's drops, which do not concern pods.
func (w *walls) refusedBelow(family int, nft []kernel.Chain) {
	byName := map[string]kernel.Chain{}
	var next []kernel.Chain
	for _, c := range nft {
		if c.Family != family && c.Family != 0 {
			continue
		}
		if c.Forward {
			next = append(next, c)
		} else if node.ForeignChain(c.Table, c.Name) && !strings.HasPrefix(c.Name, "DOCKER") {
			byName[fmt.Sprint(c.Family, c.Table, c.Name)] = c
		}
	}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		for _, to := range at.Jumps {
			key := fmt.Sprint(at.Family, at.Table, to)
			c, known := byName[key]
			if !known {
				continue
			}
			delete(byName, key) // each chain once
			next = append(next, c)
			wall := inNative
			if slices.Contains([]string{"filter", "nat", "mangle", "raw"}, c.Table) && c.Family != 0 {
				wall = inNFT
			}
			if c.Refuses {
				w.refuses = append(w.refuses, chainOf(c, wall))
			}
		}
	}
}

// nftFamilies maps the families of nftables to their names.
var nftFamilies = map[int]string{0: "inet", 4: "ip", 6: "ip6"}

// isForeign reports whether a chain is in a table that does not belong to Calico, kube-proxy, the CNI plugin portmap or
// iptables. iptables never uses the family inet, and "inet filter" is the table in the nftables.conf of distributions.
func isForeign(c kernel.Chain) bool {
	return !slices.Contains([]string{"calico", "kube-proxy", "cni_hostport"}, c.Table) &&
		(c.Family == 0 || !slices.Contains([]string{"filter", "nat", "mangle", "raw", "security"}, c.Table))
}

// chainOf returns the name of a chain with its firewall.
func chainOf(c kernel.Chain, wall string) string {
	if wall == inNative && c.Table != "calico" {
		return fmt.Sprintf("%s of nftables' table %s", c.Name, c.Table)
	}
	return fmt.Sprintf("%s of %s", c.Name, wall)
}

// dropping returns three lists of chains that drop forwarded packets by default policy: all such chains; those in a
// firewall in which Calico's chains are not in use; and the second list together with tables that an administrator
// wrote for nftables.
func (w walls) dropping() (names, shut, others []string) {
	// If Calico accepts a packet, the packet is accepted only in the firewall that contains Calico's chains. If an
	// administrator wrote tables for nftables, the check assumes that they accept pods.
	for i, c := range w.drops {
		name := chainOf(c, w.dropsIn[i])
		switch {
		case w.dropsIn[i] == inNative && c.Table != "calico":
			others = append(others, name)
		case !slices.Contains(w.used, w.dropsIn[i]):
			shut = append(shut, name)
			others = append(others, name)
		}
		names = append(names, name)
	}
	return names, shut, others
}

func judgeWalls(w walls, pods int, known bool) probe.Result {
	var in, beside []string
	for _, wall := range []string{inLegacy, inNFT, inNative} {
		if w.calico[wall] == 0 {
			continue
		}
		in = append(in, wall)
		if !slices.Contains(w.used, wall) {
			beside = append(beside, wall)
		}
	}
	names, shut, others := w.dropping()
	var r probe.Result
	switch {
	case len(w.used) > 1:
		r = probe.Found(probe.Fail,
			"forwarded packets pass Calico's chains in %s: one set of rules is stale and drops traffic that it does not recognize", strings.Join(w.used, " and in "))
	case len(w.used) == 0 && w.unread != nil:
		r = node.Unseen(w.unread)
	case len(w.used) == 0 && len(in) > 0:
		r = probe.Found(probe.Fail, "Calico's chains are in %s, but no FORWARD rule jumps to them",
			strings.Join(in, " and in "))
	case len(in) == 0 && pods > 0 && known:
		r = probe.Found(probe.Fail,
			"no firewall has Calico's chains, but this node has %d pod interfaces (cali*): policies and masquerading do not work", pods)
	case len(in) == 0:
		r = probe.Found(probe.Info, "no firewall has Calico's chains, and this node has %d pod interfaces (cali*)", pods)
	case len(shut) > 0 && pods > 0:
		r = probe.Found(probe.Warn,
			"the default policy of %s drops packets that no rule there accepts, and Calico's chains are in %s",
			strings.Join(shut, " and "), w.used[0])
	case len(beside) > 0:
		r = probe.Found(probe.Info, "Calico's chains are in use in %s; unused chains remain in %s", w.used[0],
			strings.Join(beside, " and "))
	case w.unread != nil:
		r = probe.Found(probe.Info, "Calico's chains are in use in %s; cannot check other firewalls: %v",
			w.used[0], w.unread)
	default:
		r = probe.Found(probe.OK, "Calico's chains are in use only in %s", w.used[0])
	}
	if r.Status == probe.OK && len(w.services) > 0 && !slices.Contains(w.services, w.used[0]) {
		r.Status = probe.Info
		r.Saw += "; kube-proxy's chains are in " + strings.Join(w.services, " and ")
	}
	if len(others) > 0 && (r.Status == probe.OK || r.Status == probe.Info) {
		r.Status = probe.Info
		r.Saw += "; forwarded packets that no rule there accepts are dropped by the default policy of " + strings.Join(others,
			" and ")
	}
	if len(w.passes) > 0 && r.Status == probe.OK {
		r.Status = probe.Info
		r.Saw += fmt.Sprintf("; the default policy of %s is drop, but its rules accept pods", strings.Join(w.passes, " and "))
	}
	return r.With(probe.FactBackends, node.First(in)).With(firewall.FactInUse, node.First(w.used)).With(factServices,
		node.First(w.services)).
		With(firewall.FactDrops, node.First(names)).With(firewall.FactRefuses, node.First(w.refuses)).
		With(firewall.FactForeignTables, node.First(w.foreign)).With(node.FactPods, pods).With(factChains, w.calico)
}
