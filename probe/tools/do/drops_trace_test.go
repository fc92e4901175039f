package do

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/drops"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/skbdrop"
)

// forwarded is a forwarded echo that netfilter dropped.
func forwarded(seq uint32) skbdrop.Path {
	return skbdrop.Path{Role: skbdrop.Sent, Steps: []skbdrop.Event{{Kind: skbdrop.Dropped, Namespace: 1,
		Interface: "cali12", Protocol: skbdrop.ICMP, Type: 8, Seq: seq, Reason: "NETFILTER_DROP",
		Calls: []string{"nft_do_chain", "nf_hook_slow", "ip_forward"}}}}
}

// TestRuleOfADrop checks that a rule is named only if it counted exactly the dropped packets. A rule that also met
// other packets may have met only those, while a rule without a counter dropped ours. The place has the name of the
// counted namespace, which is not always the node.
func TestRuleOfADrop(t *testing.T) {
	t.Parallel()
	grew := func(n int, hook string) drops.Death {
		return drops.Death{Where: "this network namespace", Place: "rule 1", Count: n,
			Rule: &kernel.Refusal{Family: "inet", Hook: hook}}
	}
	for name, c := range map[string]struct {
		grew []drops.Death
		want string
	}{
		"as many":               {[]drops.Death{grew(3, "forward")}, "rule 1"},
		"where chains lead to":  {[]drops.Death{grew(3, "")}, "rule 1"},
		"of others too":         {[]drops.Death{grew(20, "forward")}, ""},
		"fewer":                 {[]drops.Death{grew(2, "forward")}, ""},
		"of another hook":       {[]drops.Death{grew(3, "input")}, ""},
		"two of them":           {[]drops.Death{grew(3, "forward"), grew(3, "")}, ""},
		"one beside one of all": {[]drops.Death{grew(3, "forward"), grew(50, "")}, "rule 1"},
	} {
		v := &view{own: 1, node: 1, home: "this network namespace", grew: c.grew,
			paths: []skbdrop.Path{forwarded(0), forwarded(1), forwarded(2)}}
		if got := v.rule(v.paths[0].End()); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestDroppedCopy checks that the end of the unanswered echo is reported, not that of a copy of an answered one.
func TestDroppedCopy(t *testing.T) {
	t.Parallel()
	seen := func(roleOf skbdrop.Role, kind skbdrop.Kind, typ uint8, seq uint32) skbdrop.Path {
		return skbdrop.Path{Role: roleOf, Arrived: roleOf == skbdrop.Answer, Steps: []skbdrop.Event{{Kind: kind, Namespace: 1,
			Interface: "eth0", Protocol: skbdrop.ICMP, Type: typ, Seq: seq, Reason: "PACKET_SOCK_ERROR"}}}
	}
	v := &view{own: 1, node: 1, home: drops.Node, paths: []skbdrop.Path{seen(skbdrop.Sent, skbdrop.Dropped, 8, 0),
		seen(skbdrop.Answer, skbdrop.Came, 0, 0), seen(skbdrop.Sent, skbdrop.Left, 8, 1)}}
	r := tracing{}.report(&probe.Job{Out: new(strings.Builder)}, v,
		delivery{sent: 2, answered: 1, what: "echoes", failed: "lost"})
	if r.Status != probe.Fail || !strings.Contains(r.Saw, "left eth0") || strings.Contains(r.Saw, "PACKET_SOCK_ERROR") {
		t.Errorf("%s: %s", r.Status, r.Saw)
	}
}

// TestOneOfEach checks that both families of a name are tested, not two addresses of one.
func TestOneOfEach(t *testing.T) {
	t.Parallel()
	addrs := func(texts ...string) (out []netip.Addr) {
		for _, text := range texts {
			out = append(out, netip.MustParseAddr(text))
		}
		return out
	}
	got := oneOfEach(addrs("10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"))
	if !slices.Equal(got, addrs("10.0.0.1", "fd00::1")) || len(oneOfEach(addrs("fd00::1"))) != 1 {
		t.Error(got)
	}
}
