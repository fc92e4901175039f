package kernel

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// The firewalls of Linux. Every packet passes all of them.
const (
	WallLegacy = "legacy iptables"
	WallNFT    = "iptables-nft"
	WallNative = "nftables"
)

// Refusal is a firewall rule that drops, rejects or queues packets, or a chain's drop policy. It includes the
// packet counter.
type Refusal struct {
	Wall         string // one of the Wall names
	Family       string // "ip", "ip6", "inet", ...
	Table, Chain string
	Hook         string   // "forward", ...; "" = other chains jump to this chain
	Handle       uint64   // the rule's number in nftables; in legacy iptables, its position; 0 = the policy
	At           int      // the rule's position in the chain, starting at 1; 0 = the policy
	Does         string   // "drop", "reject" or "queue"
	Text         string   // the rule, as far as it could be parsed
	Comments     []string // the rule's comments, without Felix's hashes
	// For is Felix's comment at the head of the chain. The comment states the chain's purpose:
	// "NetworkPolicy default/deny ingress".
	For string
	// Policies lists the Calico policies that packets have passed since their tier began, in the same form. For a rule
	// at the end of a tier, these policies did not accept the packets. It is empty for legacy iptables.
	Policies []string
	Counted  bool // true if the rule has a counter
	Packets  uint64
}

// maxRefusals limits the number of rules to keep, and maxRules the number of rules to read, because
// a node can have any number of rules.
const (
	maxRefusals = 20_000
	maxRules    = 300_000
)

// errManyRules reports that there are more rules.
var errManyRules = fmt.Errorf("more than %d rules, too many to read: %w", maxRules, probe.ErrNotVisible)

// wallOfTable returns the firewall to which an nftables table belongs, because iptables-nft stores
// its tables in nftables.
func wallOfTable(family, table string) string {
	switch {
	case family != "ip" && family != "ip6":
	case table == "filter", table == "raw", table == "mangle", table == "security", table == "nat":
		return WallNFT
	}
	return WallNative
}

// felixHash matches the comment by which Felix identifies its rules. Felix's description of the rule follows after a
// semicolon (felix/nftables), or in separate comments (felix/iptables).
var felixHash = regexp.MustCompile(`^cali:[\w-]{16}(; *|;?$)`)

// policyAtHead matches Felix's comment at the head of the chain of a policy or profile, escaped as iptables requires.
var policyAtHead = regexp.MustCompile(`^(?:[A-Za-z]*Policy|Profile) \S+ (?:ingress|egress)$`)

// splitComments splits a rule's comments into those to keep and the purpose of the chain.
func splitComments(comments []string) (own []string, purpose string) {
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

// heads collects the purposes of chains while the rules are being read.
type heads map[string]string

// of records a chain's purpose from the comments of a rule, and returns the other comments.
func (h heads) of(chain string, comments []string) (own []string) {
	own, purpose := splitComments(comments)
	if purpose != "" && h[chain] == "" {
		h[chain] = purpose
	}
	return own
}

// legacyRefusals lists the Refusals in a legacy iptables table.
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
			Packets: binary.NativeEndian.Uint64(rest[l.entry-16:])} // struct xt_counters, at the end of the entry's head
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

// legacyComments returns the comments in a rule's matches.
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
