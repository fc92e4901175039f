package diagnose

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestPoolRules wants an overlap named whatever else is seen, and a pool without natOutgoing only where its pods do
// not get out.
func TestPoolRules(t *testing.T) {
	t.Parallel()
	overlap := of(facts.CheckPools, "192.168.0.0/16", probe.Found(probe.Warn, "the pool has the addresses of 2 of 2 nodes in it").
		With(facts.PoolOverlaps, facts.OverlapsNodes).With(facts.PoolNAT, true))
	off := of(facts.CheckPools, "10.244.0.0/16", probe.Found(probe.Info, "natOutgoing is off").With(facts.PoolNAT, false))
	on := of(facts.CheckPools, "10.244.0.0/16", probe.Found(probe.OK, "well").With(facts.PoolNAT, true))
	lost := of(checks.DNSExternal.ID, "service 10.96.0.10:53", probe.Found(probe.Warn, "SERVFAIL about .").
		With(checks.FactQuestion, ".").With(checks.FactRole, "service"))
	for name, c := range map[string]struct {
		of    Findings
		first string
		sure  probe.Confidence
	}{
		"overlap":                     {found(overlap), "pool-overlaps", probe.Medium},
		"overlap, and nothing is got": {found(overlap, lost), "pool-overlaps", probe.Medium},
		"not masqueraded":             {found(off, lost), "pods-not-masqueraded", probe.Medium},
		"near: routed outside":        {found(off), "", ""},
		"near: masqueraded":           {found(on, lost), "dns-no-upstream", probe.Medium},
	} {
		d := Explain(c.of, Rules())
		switch {
		case c.first == "" && len(d.Causes) > 0,
			c.first != "" && (len(d.Causes) != 1 || d.Causes[0].ID != c.first || d.Causes[0].Confidence != c.sure):
			t.Errorf("%s: %+v", name, d.Causes)
		}
	}
}
