package kernel

import (
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
)

// TestNFTRule checks the text of NodeLocal DNS's rule, from native expressions and from those of iptables-nft, and
// recognises Felix's own rules.
func TestNFTRule(t *testing.T) {
	t.Parallel()
	daddr := []expr.Any{&expr.Payload{Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4},
		&expr.Cmp{Op: expr.CmpOpEq, Data: []byte{10, 96, 0, 10}}}
	info := xt.Unknown{1, 0, 0, 0}
	comment := xt.Comment("cali:abc")
	for want, exprs := range map[string][]expr.Any{
		"daddr 10.96.0.10 udp dport 53 notrack": append(daddr, &expr.Meta{Key: expr.MetaKeyL4PROTO},
			&expr.Cmp{Op: expr.CmpOpEq, Data: []byte{17}}, &expr.Payload{Base: expr.PayloadBaseTransportHeader,
				Offset: 2, Len: 2},
			&expr.Cmp{Op: expr.CmpOpEq, Data: []byte{0, 53}}, &expr.Counter{}, &expr.Notrack{}),
		"udp dport 53 notrack": {&expr.Meta{Key: expr.MetaKeyL4PROTO}, &expr.Cmp{Op: expr.CmpOpEq, Data: []byte{17}},
			&expr.Match{Name: "udp", Info: &xt.Udp{SrcPorts: [2]uint16{0, 65535}, DstPorts: [2]uint16{53, 53}}},
			&expr.Target{Name: "CT", Info: &info}},
		"not saddr 10.244.0.0/16 iif eth0 jump mine": {&expr.Payload{Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 2},
			&expr.Cmp{Op: expr.CmpOpNeq, Data: []byte{10, 244}}, &expr.Meta{Key: expr.MetaKeyIIFNAME},
			&expr.Cmp{Op: expr.CmpOpEq, Data: []byte("eth0\x00")}, &expr.Verdict{Kind: expr.VerdictJump, Chain: "mine"}},
		"rewrite ttl": {&expr.Payload{Base: expr.PayloadBaseNetworkHeader, Offset: 8, Len: 2},
			&expr.Payload{OperationType: expr.PayloadWrite, Base: expr.PayloadBaseNetworkHeader, Offset: 8, Len: 2}},
		"set mark": {&expr.Immediate{Register: 1, Data: []byte{0, 0, 0, 0}},
			&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1}},
		"length > 5125 limit drop": {&expr.Meta{Key: expr.MetaKeyLEN}, &expr.Cmp{Op: expr.CmpOpGt, Data: []byte{5, 20, 0, 0}},
			&expr.Limit{Over: true}, &expr.Verdict{Kind: expr.VerdictDrop}},
	} {
		if got, calicos := nftRule(&nftables.Rule{Exprs: exprs}); got != want || calicos {
			t.Errorf("%q (%v), want %q", got, calicos, want)
		}
	}
	if _, calicos := nftRule(&nftables.Rule{Exprs: []expr.Any{&expr.Match{Name: "comment", Info: &comment}}}); !calicos {
		t.Error("a rule with Felix's comment is taken for another's")
	}
}
