package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// noAnswers are the reasons of a question that nobody answered.
var noAnswers = []string{"timeout", "refused", "rejected", "denied", "host-unreachable", "net-unreachable"}

// nodesServers are the answers of name servers of a node's own, as the node asked them.
func nodesServers(all []diagnose.Finding) (silent, answering []diagnose.Finding) {
	for _, r := range evidence.InRole(all, probe.RoleNode) {
		switch {
		case r.From != "":
		case r.Facts.Str(probe.FactRcode) != "":
			answering = append(answering, r)
		case slices.Contains(noAnswers, diagnose.ReasonOf(r)):
			silent = append(silent, r)
		}
	}
	return silent, answering
}

// nodeDNSDown is a node whose own programs resolve no name.
func nodeDNSDown(f diagnose.Findings) []diagnose.Case {
	silent, answering := nodesServers(f.Of(dns.DNSExternal.ID))
	waiting := f.Where(func(r diagnose.Finding) bool { return r.Facts.Str(facts.NoNames) != "" })
	_, elsewhere := nodesServers(f.Elsewhere(dns.DNSExternal.ID))
	if len(waiting) == 0 { // nothing is known to wait for a name
		return nil
	}
	named := diagnose.Keep(silent, func(r diagnose.Finding) bool {
		return strings.HasSuffix(r.Target, " "+waiting[0].Facts.Str(facts.NoNames)) && serverOf(r).IsLoopback()
	})
	if len(named) > 0 { // a resolver of the node's own, the only one that its programs ask
		silent = named
	} else if len(answering) > 0 {
		return nil
	}
	c := diagnose.Case{For: slices.Concat(diagnose.Suggests(silent), diagnose.Hints(waiting)),
		Covers: diagnose.Covers(dns.DNSExternal.ID)}
	if len(silent) > 0 {
		c.Says = fmt.Sprintf("{node} resolves no name: none of its own name servers answers (%s: %s)", silent[0].Target, silent[0].Saw)
	} else {
		c.Says = fmt.Sprintf("{node} resolves no name: %s does not answer it, as the kubelet says of an image", waiting[0].Facts.Str(facts.NoNames))
	}
	if len(elsewhere) > 0 {
		c.For = append(c.For, diagnose.Shows(elsewhere[:1])...)
	}
	return []diagnose.Case{c}
}
