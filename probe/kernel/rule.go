package kernel

import (
	"fmt"
	"net/netip"
	"strings"
)

// Rule says for which packets the kernel looks into which routing table ("ip rule").
type Rule struct {
	Priority, Table int
	From, To        netip.Prefix // invalid = any
	Mark            uint32       // of the firewall, 0 = any
	In, Out         string       // interfaces, "" = any
	Not             bool         // it is about all other packets
	Rejects         bool         // it looks into no table: blackhole, unreachable or prohibit
	Partly          bool         // it leaves out some of its table's routes, by their prefixes' length or their device
}

// String is the rule in one line, as 'ip rule' would put it.
func (r Rule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d: ", r.Priority)
	if r.Not {
		b.WriteString("not ")
	}
	from := "all"
	if r.From.IsValid() {
		from = r.From.String()
	}
	b.WriteString("from " + from)
	if r.To.IsValid() {
		b.WriteString(" to " + r.To.String())
	}
	if r.Mark != 0 {
		fmt.Fprintf(&b, " fwmark %#x", r.Mark)
	}
	for _, name := range []struct{ word, is string }{{"iif", r.In}, {"oif", r.Out}} {
		if name.is != "" {
			b.WriteString(" " + name.word + " " + name.is)
		}
	}
	if r.Rejects {
		return b.String() + " drops or rejects"
	}
	fmt.Fprintf(&b, " lookup %d", r.Table)
	return b.String()
}

// Own tells whether the kernel itself made the rule: those for the tables local, main and default.
func (r Rule) Own() bool {
	return r.Table == TableLocal || r.Table == TableMain || r.Table == tableDefault
}
