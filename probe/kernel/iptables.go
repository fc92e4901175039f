package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
)

// Chain is one chain of a firewall: nftables, iptables-nft or legacy iptables.
type Chain struct {
	Family      int // 4, 6, or 0 for a table that sees both families
	Table, Name string
	// These fields describe a chain that all forwarded packets pass. They show whether the chain drops packets that no
	// rule accepts. For such a chain, and for chains whose rules are read, they also list the chains to which the rules
	// jump. They show whether a rule drops or rejects packets regardless of the connection's state.
	Forward, Drops, Refuses bool
	Jumps                   []string
}

// legacyInfo is the kernel's description of a legacy iptables table. It shows where each built-in chain begins
// and ends in the table's entries (struct ipt_getinfo after the name).
type legacyInfo struct {
	Hooks       uint32
	First, Last [5]uint32
	Entries     uint32
	Size        uint32
}

// hookForward is the number of the chain FORWARD (NF_INET_FORWARD).
const hookForward = 2

// legacyLayout holds the offsets in one rule: the size of the rule's address match (struct ipt_ip, ip6t_ip6), and the
// size of everything before the first extension.
type legacyLayout struct{ match, entry int }

var (
	legacy4 = legacyLayout{84, 112}
	legacy6 = legacyLayout{136, 168}
)

var errLegacy = errors.New("the table of legacy iptables cannot be parsed")

// legacyParse lists the chains in a table's entries. A user-defined chain begins after an ERROR target that contains
// the chain's name.
func legacyParse(l legacyLayout, info legacyInfo, entries []byte) ([]Chain, error) {
	const target = 32 // size of struct xt_entry_target in bytes
	var out []Chain
	starts := map[int32]string{}
	forward := Chain{Name: "FORWARD", Forward: true}
	var jumps []int32
	dropped := false // by the previous rule
	for at := 0; at < len(entries); {
		rest := entries[at:]
		if len(rest) < l.entry {
			return nil, errLegacy
		}
		begin, next := int(binary.NativeEndian.Uint16(rest[l.match+4:])),
			int(binary.NativeEndian.Uint16(rest[l.match+6:]))
		if begin < l.entry || next < begin+target+4 || next > len(rest) {
			return nil, errLegacy
		}
		name, data := text(rest[begin+2:begin+target-1]), rest[begin+target:next]
		inForward := info.Hooks&(1<<hookForward) != 0 && at >= int(info.First[hookForward]) &&
			at <= int(info.Last[hookForward])
		switch {
		case name == "ERROR":
			if called := text(data); called != "ERROR" { // otherwise, it ends the table
				out = append(out, Chain{Name: called})
				starts[int32(at+next)] = called
			}
		case name == "" && inForward:
			verdict := int32(binary.NativeEndian.Uint32(data))
			if verdict >= 0 {
				jumps = append(jumps, verdict)
			}
			forward.Refuses = forward.Refuses || dropped // it was not the policy
			forward.Drops = verdict == -1                // the last rule is the policy: -NF_DROP - 1
			dropped = forward.Drops && !byState(rest[l.entry:begin])
		case inForward:
			forward.Refuses = forward.Refuses || dropped || name == "REJECT" && !byState(rest[l.entry:begin])
			dropped = false
		}
		at += next
	}
	for _, to := range jumps {
		if name := starts[to]; name != "" {
			forward.Jumps = append(forward.Jumps, name)
		}
	}
	return append(out, forward), nil
}

// byState reports whether a rule's matches test the connection state. Such rules drop packets that
// belong to no connection.
func byState(matches []byte) bool {
	return bytes.Contains(matches, []byte("conntrack\x00")) || bytes.Contains(matches, []byte("state\x00"))
}

// text returns a C string.
func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return strings.ToValidUTF8(string(b), "?")
}
