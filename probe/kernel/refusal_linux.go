package kernel

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
)

// Refusals lists the Refusals in all firewalls of this network namespace. For legacy iptables, it lists only tables
// that are loaded. If it cannot read everything, it returns the Refusals that it could read together with an error.
func Refusals(h *probe.Host) ([]Refusal, error) {
	out, err := nftRefusals()
	err = errors.Join(err, legacyTables(h, "", func(t legacyFound) error {
		if t.name == "nat" { // rules in this table cannot drop packets
			return nil
		}
		family := map[int]string{4: "ip", 6: "ip6"}[t.family]
		found, err := legacyRefusals(t.layout, family, t.name, t.info, t.entries)
		out = append(out, found...)
		return err
	}))
	return out, err
}

// nftRefusals lists the rules of nftables and iptables-nft that drop packets. It uses one query for all rules and one
// query for all chains. Reading kube-proxy's thousands of chains one at a time takes seconds.
func nftRefusals() ([]Refusal, error) {
	if _, err := generation(); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return steady(func() ([]Refusal, error) {
		out, hooks, err := nftPolicies()
		if err != nil {
			return nil, err
		}
		rules, err := nftDropping()
		for i := range rules {
			rules[i].Hook = hooks[rules[i].key()]
		}
		return append(out, rules...), err
	})
}

// nftList queries nftables for all objects of a kind. of is one family, with attributes; without it, in every family.
func nftList(kind, answer int, each func(family nftables.TableFamily, attrs []nftAttr), of ...byte) error {
	if len(of) == 0 {
		of = make([]byte, nl.SizeofNfgenmsg)
	}
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|kind, unix.NLM_F_DUMP)
	req.AddRawData(of)
	n := 0
	err := req.ExecuteIter(unix.NETLINK_NETFILTER, uint16(unix.NFNL_SUBSYS_NFTABLES<<8|answer), func(m []byte) bool {
		if n++; n > maxRules || len(m) < nl.SizeofNfgenmsg {
			return false
		}
		each(nftables.TableFamily(m[0]), nftAttrs(m[nl.SizeofNfgenmsg:]))
		return true
	})
	switch {
	case n > maxRules:
		return errManyRules
	case err != nil:
		return firewallError(err)
	}
	return nil
}

// nlaType masks the number in an attribute's type (NLA_TYPE_MASK).
const nlaType = 0x3fff

// nftAttr is a netlink attribute.
type nftAttr struct {
	kind uint16
	data []byte
}

// nftAttrs splits attributes, and ignores an attribute that is truncated.
func nftAttrs(b []byte) []nftAttr {
	var out []nftAttr
	for len(b) >= unix.SizeofNlAttr {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofNlAttr || size > len(b) {
			break
		}
		kind := binary.NativeEndian.Uint16(b[2:]) & nlaType
		out = append(out, nftAttr{kind, b[unix.SizeofNlAttr:size]})
		b = b[min(len(b), (size+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1)):]
	}
	return out
}

// nftPolicies returns the chains that have a drop policy, and the hook of every chain that has a hook.
func nftPolicies() (out []Refusal, hooks map[string]string, _ error) {
	hooks = map[string]string{}
	err := nftList(unix.NFT_MSG_GETCHAIN, unix.NFT_MSG_NEWCHAIN, func(family nftables.TableFamily, attrs []nftAttr) {
		one := Refusal{Family: familyNames[family], Does: "drop", Text: "policy drop"}
		drops := false
		for _, a := range attrs {
			switch a.kind {
			case unix.NFTA_CHAIN_TABLE:
				one.Table = text(a.data)
			case unix.NFTA_CHAIN_NAME:
				one.Chain = text(a.data)
			case unix.NFTA_CHAIN_HOOK:
				one.Hook = nftHook(family, a.data)
			case unix.NFTA_CHAIN_POLICY:
				drops = len(a.data) == 4 && binary.BigEndian.Uint32(a.data) == uint32(expr.VerdictDrop)
			case unix.NFTA_CHAIN_COUNTERS:
				one.Packets, one.Counted = nftCounted(a.data)
			}
		}
		if one.Hook != "" {
			hooks[one.key()] = one.Hook
		}
		if one.Wall = wallOfTable(one.Family, one.Table); drops && len(out) < maxRefusals {
			out = append(out, one)
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("listing the chains of nftables: %w", err)
	}
	return out, hooks, nil
}

// nftHook returns the name of a chain's hook.
func nftHook(family nftables.TableFamily, b []byte) string {
	for _, a := range nftAttrs(b) {
		if a.kind != unix.NFTA_HOOK_HOOKNUM || len(a.data) != 4 {
			continue
		}
		n := binary.BigEndian.Uint32(a.data)
		switch {
		case family == nftables.TableFamilyNetdev:
			return map[uint32]string{0: "ingress", 1: "egress"}[n]
		case int(n) < len(hookNames):
			return hookNames[n]
		}
	}
	return ""
}

// nftCounted parses a counter.
func nftCounted(b []byte) (packets uint64, is bool) {
	for _, a := range nftAttrs(b) {
		if a.kind == unix.NFTA_COUNTER_PACKETS && len(a.data) == 8 {
			return binary.BigEndian.Uint64(a.data), true
		}
	}
	return 0, false
}

// nftRead parses a rule as the kernel lists it: the rule's place, its comments and its raw expressions.
func nftRead(family nftables.TableFamily, attrs []nftAttr) (one Refusal, r nftables.Rule, raw []byte) {
	one = Refusal{Family: familyNames[family], At: 1}
	for _, a := range attrs {
		switch a.kind {
		case unix.NFTA_RULE_TABLE:
			one.Table = text(a.data)
		case unix.NFTA_RULE_CHAIN:
			one.Chain = text(a.data)
		case unix.NFTA_RULE_HANDLE:
			if len(a.data) == 8 {
				one.Handle = binary.BigEndian.Uint64(a.data)
			}
		case unix.NFTA_RULE_EXPRESSIONS:
			raw = a.data
		case unix.NFTA_RULE_USERDATA:
			r.UserData = a.data
		}
	}
	return one, r, raw
}

// nftDropping returns the rules that drop, reject or queue packets.
func nftDropping() ([]Refusal, error) {
	var out []Refusal
	purposes := heads{}
	var last Refusal      // the previous rule
	var policies []string // the chains to which the rules of the rule's chain jump
	err := nftList(unix.NFT_MSG_GETRULE, unix.NFT_MSG_NEWRULE, func(family nftables.TableFamily, attrs []nftAttr) {
		one, r, raw := nftRead(family, attrs)
		if one.Family == last.Family && one.Table == last.Table && one.Chain == last.Chain {
			one.At = last.At + 1
		} else {
			policies = nil
		}
		last = one
		does, endpoint := nftDoes(raw), ofEndpoint.MatchString(one.Chain)
		if does == "" && !endpoint && !strings.Contains(one.Chain, "cali-p") { // only these chains state their purpose
			return
		}
		r.Exprs = nftExprs(byte(family), raw)
		one.Comments = purposes.of(one.key(), nftComments(&r))
		if endpoint {
			policies = addPolicy(policies, one, r.Exprs)
			one.Policies = slices.Clone(policies)
		}
		if does == "" || len(out) >= maxRefusals {
			return
		}
		one.Wall, one.Does = wallOfTable(one.Family, one.Table), does
		one.Text, _ = nftRule(&r)
		for _, e := range r.Exprs {
			if counter, is := e.(*expr.Counter); is {
				one.Counted, one.Packets = true, counter.Packets
			}
		}
		out = append(out, one)
	})
	if err != nil {
		return nil, fmt.Errorf("listing the rules of nftables: %w", err)
	}
	for i := range out {
		purposes.name(&out[i])
	}
	return out, nil
}

// name sets the purpose of a rule's chain, and the purposes of the chains that lead to it.
func (h heads) name(r *Refusal) {
	r.For = h[r.key()]
	for j, chain := range r.Policies {
		policy := Refusal{Family: r.Family, Table: r.Table, Chain: chain}
		r.Policies[j] = cmp.Or(h[policy.key()], chain)
	}
}

// ofEndpoint matches Felix's chains for the interface of a pod or host. Such a chain jumps to each policy in turn.
var ofEndpoint = regexp.MustCompile(`cali-(?:tw|fw|th|fh|thfw|fhfw)-`)

// maxPolicies is the maximum number of policies to keep for one tier.
const maxPolicies = 16

// addPolicy adds the policy chain to which a rule jumps. It starts over at each tier.
func addPolicy(policies []string, rule Refusal, exprs []expr.Any) []string {
	if slices.ContainsFunc(rule.Comments, func(c string) bool { return strings.Contains(c, "Start of tier") }) {
		return nil
	}
	for _, e := range exprs {
		if to, is := e.(*expr.Verdict); is && policyChain.MatchString(to.Chain) && len(policies) < maxPolicies {
			policies = append(policies, to.Chain)
		}
	}
	return policies
}

// policyChain matches Felix's chains for policies.
var policyChain = regexp.MustCompile(`cali-p[io]-`)

// key identifies a rule's chain.
func (r Refusal) key() string { return r.Family + " " + r.Table + " " + r.Chain }

// nftDoes returns what a rule does with packets that end there, or "" if no packets end there.
func nftDoes(exprs []byte) string {
	does := ""
	for _, e := range nftAttrs(exprs) {
		name, data := nftExpr(e.data)
		switch name {
		case "reject":
			does = "reject"
		case "queue":
			does = "queue"
		case "immediate":
			var verdict expr.Verdict
			if verdictOf(data, &verdict) && verdict.Kind == expr.VerdictDrop {
				does = "drop"
			}
		case "target":
			for _, a := range nftAttrs(data) {
				if a.kind == unix.NFTA_TARGET_NAME {
					does = map[string]string{"REJECT": "reject", "DROP": "drop", "NFQUEUE": "queue"}[text(a.data)]
				}
			}
		}
	}
	return does
}

// nftExpr returns the name of an expression and its data.
func nftExpr(b []byte) (name string, data []byte) {
	for _, a := range nftAttrs(b) {
		switch a.kind {
		case unix.NFTA_EXPR_NAME:
			name = text(a.data)
		case unix.NFTA_EXPR_DATA:
			data = a.data
		}
	}
	return name, data
}

// verdictOf parses an expression that sets a verdict. It returns false if the expression sets something else.
func verdictOf(data []byte, into *expr.Verdict) bool {
	for _, a := range nftAttrs(data) {
		writes := a.kind == unix.NFTA_IMMEDIATE_DREG
		if writes && (len(a.data) != 4 || binary.BigEndian.Uint32(a.data) != unix.NFT_REG_VERDICT) {
			return false
		}
	}
	return nftDecodes(0, data, into)
}

// nftKinds lists the expressions that this package can describe.
var nftKinds = map[string]func() expr.Any{
	"meta": func() expr.Any { return &expr.Meta{} }, "payload": func() expr.Any { return &expr.Payload{} },
	"bitwise": func() expr.Any { return &expr.Bitwise{} }, "cmp": func() expr.Any { return &expr.Cmp{} },
	"lookup": func() expr.Any { return &expr.Lookup{} }, "ct": func() expr.Any { return &expr.Ct{} },
	"match": func() expr.Any { return &expr.Match{} }, "target": func() expr.Any { return &expr.Target{} },
	"reject": func() expr.Any { return &expr.Reject{} }, "queue": func() expr.Any { return &expr.Queue{} },
	"counter": func() expr.Any { return &expr.Counter{} }, "immediate": func() expr.Any { return &expr.Verdict{} },
}

// nftExprs returns the parsed expressions of a rule, and omits unknown expressions.
func nftExprs(family byte, raw []byte) []expr.Any {
	var out []expr.Any
	for _, e := range nftAttrs(raw) {
		name, data := nftExpr(e.data)
		build, known := nftKinds[name]
		if !known {
			continue
		}
		one := build()
		if verdict, is := one.(*expr.Verdict); is && !verdictOf(data, verdict) {
			continue
		} else if !is && !nftDecodes(family, data, one) {
			continue
		}
		out = append(out, one)
	}
	return out
}

// userComment returns the nftables comment from a rule's user data. The data consists of entries with a type, a length
// and that many bytes (libnftnl/udata.h). A pod with NET_ADMIN can write any bytes there, so userComment stops at a
// truncated entry.
func userComment(b []byte) (string, bool) {
	const head, comment = 2, 0 // NFTNL_UDATA_RULE_COMMENT
	for len(b) >= head && len(b) >= head+int(b[1]) {
		end := head + int(b[1])
		if b[0] == comment {
			return text(b[head:end]), true
		}
		b = b[end:]
	}
	return "", false
}

// nftComments returns a rule's comments: the nftables comment, and the comments that iptables-nft stores as a match.
func nftComments(r *nftables.Rule) []string {
	var out []string
	if own, ok := userComment(r.UserData); ok {
		out = append(out, own)
	}
	for _, e := range r.Exprs {
		if m, is := e.(*expr.Match); is {
			if comment, is := m.Info.(*xt.Comment); is {
				out = append(out, string(*comment))
			}
		}
	}
	return out
}
