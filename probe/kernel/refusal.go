package kernel

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// The firewalls of Linux, which packets pass one after the other.
const (
	WallLegacy = "legacy iptables"
	WallNFT    = "iptables-nft"
	WallNative = "nftables"
)

// Refusal is a rule of a firewall that drops, rejects or queues packets, or the policy of a chain that drops, and how
// many packets it met.
type Refusal struct {
	Wall         string // one of the Wall names
	Family       string // "ip", "ip6", "inet", ...
	Table, Chain string
	Hook         string   // "forward", ...; "" = other chains lead to it
	Handle       uint64   // nftables' number of the rule; of legacy iptables its place in the chain; 0 = the policy
	At           int      // its place in the chain, from 1; 0 = the policy
	Does         string   // "drop", "reject" or "queue"
	Text         string   // the rule in words, as far as it is understood here
	Comments     []string // its own, but for Felix's hashes
	// For is what Felix says at the head of the chain that it is for: "NetworkPolicy default/deny ingress".
	For string
	// Asked are the policies of Calico's that the packets were led to since their tier began, in the same words; of a
	// rule at the end of a tier none of them accepted. Legacy iptables is not asked for them.
	Asked   []string
	Counted bool // it has a counter
	Packets uint64
}

// maxRefusals bounds the rules that are kept, and maxRules those that are read: a node decides how many it has.
const (
	maxRefusals = 20_000
	maxRules    = 300_000
)

// errManyRules says that there are more.
var errManyRules = fmt.Errorf("more than %d rules, too many to read: %w", maxRules, probe.ErrNotVisible)

// wallOfTable is which firewall a table of nftables belongs to: iptables-nft keeps its own there.
func wallOfTable(family, table string) string {
	switch {
	case family != "ip" && family != "ip6":
	case table == "filter", table == "raw", table == "mangle", table == "security", table == "nat":
		return WallNFT
	}
	return WallNative
}

// felixHash is the comment by which Felix knows a rule again; what Felix says of the rule stands behind it, with a
// semicolon between (felix/nftables), or in comments of their own (felix/iptables).
var felixHash = regexp.MustCompile(`^cali:[\w-]{16}(; *|;?$)`)

// policyAtHead is what Felix says at the head of the chain of a policy or a profile, escaped as iptables takes it.
var policyAtHead = regexp.MustCompile(`^(?:[A-Za-z]*Policy|Profile) \S+ (?:ingress|egress)$`)

// said takes apart the comments of a rule: those that stay, and what the chain is for.
func said(comments []string) (own []string, purpose string) {
	for _, c := range comments {
		for part := range strings.SplitSeq(felixHash.ReplaceAllString(c, ""), "; ") {
			switch part = probe.Line(strings.TrimSuffix(part, ";")); {
			case part == "":
			case policyAtHead.MatchString(part):
				purpose = part
			default:
				own = append(own, part)
			}
		}
	}
	return own, purpose
}

// heads collects what chains are for, as their rules come.
type heads map[string]string

// of is the purpose of a chain, by what a rule of it says.
func (h heads) of(chain string, comments []string) (own []string) {
	own, purpose := said(comments)
	if purpose != "" && h[chain] == "" {
		h[chain] = purpose
	}
	return own
}

// legacyRefusals lists those of a table of legacy iptables.
func legacyRefusals(l legacyLayout, family, table string, info legacyInfo, entries []byte) ([]Refusal, error) {
	var out []Refusal
	purposes := heads{}
	chain, at, inHook := "", 0, -1
	err := legacyEach(l, entries, func(begins, next int, rest []byte, begin int) {
		target, data := legacyTarget(rest, begin, next-begins)
		if hook := info.hookAt(info.First, begins); hook >= 0 {
			chain, at, inHook = strings.ToUpper(hookNames[hook]), 0, hook
		}
		if target == "ERROR" {
			chain, at, inHook = text(data), 0, -1
			return
		}
		at++
		policy := inHook >= 0 && info.Hooks&(1<<inHook) != 0 && int(info.Last[inHook]) == begins
		own := purposes.of(chain, legacyComments(rest[l.entry:begin]))
		does := legacyVerdict(target, data, nil, 0)
		if does == "nfqueue" {
			does = "queue"
		}
		if does != "drop" && does != "reject" && does != "queue" || len(out) >= maxRefusals {
			return
		}
		one := Refusal{Wall: WallLegacy, Family: family, Table: table, Chain: chain, Handle: uint64(at), At: at, Does: does,
			Text: strings.TrimSpace(legacyMatch(l, rest, begin) + " " + does), Comments: own, Counted: true,
			Packets: binary.NativeEndian.Uint64(rest[l.entry-16:])} // struct xt_counters, the last of the entry's own
		if inHook >= 0 {
			one.Hook = hookNames[inHook]
		}
		if policy {
			one.Handle, one.At, one.Text = 0, 0, "policy "+does
		}
		out = append(out, one)
	})
	for i := range out {
		out[i].For = purposes[out[i].Chain]
	}
	return out, err
}

// legacyComments are the comments among the matches of a rule.
func legacyComments(matches []byte) []string {
	var out []string
	for at := 0; at+targetHead <= len(matches); {
		size := int(binary.NativeEndian.Uint16(matches[at:]))
		if size < targetHead || at+size > len(matches) {
			break
		}
		if text(matches[at+2:at+targetHead-1]) == "comment" {
			out = append(out, text(matches[at+targetHead:at+size]))
		}
		at += size
	}
	return out
}
