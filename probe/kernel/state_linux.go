package kernel

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
)

// Walls lists the wanted chains of all firewalls, with their rules. For legacy iptables, it lists only tables that
// are loaded. It omits Felix's rules, and rules that jump to chains that are not wanted.
func Walls(h *probe.Host, wanted func(table, chain string) bool) ([]Wall, error) {
	out, err := nftWalls(wanted)
	if err != nil {
		return nil, err
	}
	if err := legacyTables(h, "", func(t legacyFound) error {
		family := map[int]string{4: "ip", 6: "ip6"}[t.family]
		walls, err := legacyWalls(t.layout, family, t.name, t.info, t.entries, wanted)
		out = append(out, walls...)
		return err
	}); err != nil {
		return nil, err
	}
	for i := range out {
		out[i].Rules = slices.DeleteFunc(out[i].Rules, func(rule string) bool {
			to := leadsTo(rule)
			return to != "" && !wanted(out[i].Table, to)
		})
	}
	return out[:min(len(out), maxWalls)], nil
}

func nftWalls(wanted func(table, chain string) bool) ([]Wall, error) {
	if _, err := generation(); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return steady(func() ([]Wall, error) {
		var c nftables.Conn
		chains, err := c.ListChains()
		if err != nil {
			return nil, fmt.Errorf("listing the chains of nftables: %w", firewallError(err))
		}
		sets := lookups{conn: &c}
		var out []Wall
		for _, n := range chains {
			if !wanted(n.Table.Name, n.Name) || len(out) >= maxWalls {
				continue
			}
			one := wallOf(n)
			rules, err := c.GetRules(n.Table, n)
			if err != nil {
				return nil, fmt.Errorf("listing the rules of %s: %w", n.Name, firewallError(err))
			}
			for _, r := range rules {
				rule, calicos := nftRule(r)
				if calicos {
					continue
				}
				for _, rule := range sets.rules(n.Table, rule) {
					one.add(rule)
				}
			}
			out = append(out, one)
		}
		return out, nil
	})
}

// familyNames maps the families of nftables tables to their names.
var familyNames = map[nftables.TableFamily]string{nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6",
	nftables.TableFamilyINet: "inet", nftables.TableFamilyARP: "arp", nftables.TableFamilyBridge: "bridge",
	nftables.TableFamilyNetdev: "netdev"}

func wallOf(n *nftables.Chain) Wall {
	one := Wall{Family: familyNames[n.Table.Family], Table: n.Table.Name, Name: n.Name}
	if n.Hooknum == nil {
		return one
	}
	one.Hook, one.Policy = fmt.Sprintf("hook %d", *n.Hooknum), "accept"
	if at := int(*n.Hooknum); at < len(hookNames) && n.Table.Family != nftables.TableFamilyNetdev {
		one.Hook = hookNames[at]
	}
	if n.Priority != nil {
		one.Priority = int(*n.Priority)
	}
	if n.Policy != nil && *n.Policy == nftables.ChainPolicyDrop {
		one.Policy = "drop"
	}
	return one
}

// nftRule describes what an nftables rule matches and does, as far as it can be parsed. It also reports whether Felix
// wrote the rule.
func nftRule(r *nftables.Rule) (rule string, calicos bool) {
	calicos = strings.Contains(string(r.UserData), ofCalico)
	var words []string
	var loaded string // what the next comparison tests
	bits, mask := -1, []byte(nil)
	var least []byte // of a range whose end follows
	for _, e := range r.Exprs {
		switch e := e.(type) {
		case *expr.Meta:
			if e.SourceRegister {
				words = append(words, setsMeta[e.Key])
				continue
			}
			loaded = metaNames[e.Key]
		case *expr.Payload:
			if e.OperationType == expr.PayloadWrite {
				words = append(words, "rewrite "+written(e))
				continue
			}
			loaded, bits = field(e), -1
		case *expr.Bitwise:
			bits, mask = leadingBits(e.Mask), e.Mask
		case *expr.Range:
			words = append(words, rangeText(loaded, e.Op, e.FromData, e.ToData))
		case *expr.Cmp:
			if e.Op == expr.CmpOpGte && least == nil && loaded != "length" {
				least = e.Data
				continue
			}
			words, least = append(words, bounded(loaded, least, e, bits, mask)), nil
			loaded, bits, mask = "", -1, nil
		case *expr.Match:
			comment, _ := e.Info.(*xt.Comment)
			calicos = calicos || comment != nil && strings.HasPrefix(string(*comment), ofCalico)
			words = append(words, matched(e))
		case *expr.Lookup:
			words = append(words, lookedUp(loaded, e))
			loaded, bits, mask = "", -1, nil
		case *expr.Ct:
			loaded, mask = "ct", nil
			if e.Key == expr.CtKeySTATE {
				loaded = "ct state"
			}
		case *expr.Fib:
			loaded = addressKind(e)
		default:
			words = append(words, action(e))
		}
	}
	if least != nil { // without an end
		words = append([]string{"match"}, words...)
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " "), calicos
}

// lookedUp describes a lookup in a set, or in a map to verdicts.
func lookedUp(loaded string, e *expr.Lookup) string {
	text := strings.TrimSpace(loaded + " @" + e.SetName)
	switch {
	case e.IsDestRegSet && e.DestRegister == unix.NFT_REG_VERDICT:
		return text + " " + toVerdicts
	case e.IsDestRegSet: // to a value that a later expression uses
		return text + " map"
	case e.Invert:
		return "not " + text
	}
	return text
}

// toVerdicts is the word for a map from the looked up value to what the rule does.
const toVerdicts = "vmap"

// metaNames are the properties of a packet whose comparisons can be described.
var metaNames = map[expr.MetaKey]string{expr.MetaKeyIIFNAME: "iif", expr.MetaKeyOIFNAME: "oif",
	expr.MetaKeyL4PROTO: "proto", expr.MetaKeyNFPROTO: "family", expr.MetaKeyPROTOCOL: "family", expr.MetaKeyMARK: "mark",
	expr.MetaKeyLEN: "length", expr.MetaKeyIIF: "iif" + byIndex, expr.MetaKeyOIF: "oif" + byIndex}

const byIndex = "index" // of an interface

// setsMeta lists the packet properties that a rule sets.
var setsMeta = map[expr.MetaKey]string{expr.MetaKeyMARK: "set mark", expr.MetaKeyPRIORITY: "set priority"}

// written names the part of a packet that a rule changes.
func written(p *expr.Payload) string {
	name := field(p)
	switch {
	case name == "" && p.Base == expr.PayloadBaseNetworkHeader && (p.Offset == 8 || p.Offset == 7):
		name = "ttl"
	case name == "" && p.Base == expr.PayloadBaseNetworkHeader && p.Offset < 2:
		name = "dscp"
	case name == "" && p.Base == expr.PayloadBaseLLHeader:
		name = "link header"
	}
	return cmp.Or(name, "header")
}

// addressKind returns the type of address that a rule looks up in the routing tables, or "" for other lookups.
func addressKind(e *expr.Fib) string {
	switch {
	case !e.ResultADDRTYPE || e.FlagIIF || e.FlagOIF || e.FlagMARK:
		return ""
	case e.FlagSADDR:
		return "saddrtype"
	case e.FlagDADDR:
		return "daddrtype"
	}
	return ""
}

// field names the part of a packet that was loaded, or returns "" if this package has no name for it.
func field(p *expr.Payload) string {
	switch {
	case p.Base == expr.PayloadBaseTransportHeader && p.Len == 2:
		return map[uint32]string{0: "sport", 2: "dport"}[p.Offset]
	case p.Base != expr.PayloadBaseNetworkHeader:
		return ""
	case p.Len == 16:
		return map[uint32]string{8: "saddr", 24: "daddr"}[p.Offset]
	case p.Len == 1 && p.Offset == 9:
		return "proto"
	case p.Len == 2 && p.Offset == 2:
		return "length"
	}
	return map[uint32]string{12: "saddr", 16: "daddr"}[p.Offset]
}

// cmpSigns maps comparisons to their signs.
var cmpSigns = map[expr.CmpOp]string{expr.CmpOpNeq: "!= ", expr.CmpOpLt: "< ", expr.CmpOpLte: "<= ", expr.CmpOpGt: "> ",
	expr.CmpOpGte: ">= "}

func compared(loaded string, c *expr.Cmp, bits int, mask []byte) string {
	not := ""
	if c.Op == expr.CmpOpNeq {
		not = "not "
	}
	switch {
	case loaded == "" || len(c.Data) == 0 || cmpSigns[c.Op] != "" && c.Op != expr.CmpOpNeq && loaded != "length":
		return "match"
	case loaded == "ct state" && len(mask) == 4 && len(c.Data) == 4 && binary.NativeEndian.Uint32(c.Data) == 0:
		not = map[bool]string{true: "not "}[c.Op == expr.CmpOpEq] // of none of these states
		return not + stateText(binary.NativeEndian.Uint32(mask), nftStates)
	case strings.HasPrefix(loaded, "ct"):
		return "match ct"
	case loaded == "family": // its address or chain shows that too
		return ""
	case loaded == "iif" || loaded == "oif":
		return not + loaded + " " + deviceText(c.Data)
	case strings.HasSuffix(loaded, byIndex) && len(c.Data) == 4:
		if dev, err := netlink.LinkByIndex(int(binary.NativeEndian.Uint32(c.Data))); err == nil {
			return not + strings.TrimSuffix(loaded, byIndex) + " " + dev.Attrs().Name
		}
	case loaded == "mark" && len(c.Data) == 4:
		all := uint32(math.MaxUint32)
		if len(mask) == 4 {
			all = binary.NativeEndian.Uint32(mask)
		}
		return not + markText(binary.NativeEndian.Uint32(c.Data), all)
	case loaded == "proto":
		return not + protocolText(c.Data[0])
	case strings.HasSuffix(loaded, "addrtype") && len(c.Data) == 4 && binary.NativeEndian.Uint32(c.Data) == Local:
		return not + loaded + " local"
	case (loaded == "sport" || loaded == "dport") && len(c.Data) == 2:
		return fmt.Sprintf("%s%s %d", not, loaded, binary.BigEndian.Uint16(c.Data))
	case loaded == "length" && len(c.Data) == 2: // of an IPv4 header
		return fmt.Sprintf("length %s%d", cmpSigns[c.Op], binary.BigEndian.Uint16(c.Data))
	case loaded == "length" && len(c.Data) == 4:
		return fmt.Sprintf("length %s%d", cmpSigns[c.Op], binary.NativeEndian.Uint32(c.Data))
	case loaded == "saddr" || loaded == "daddr":
		if bits < 0 {
			bits = len(c.Data) * 8
		}
		return not + loaded + " " + networkText(c.Data, bits)
	}
	return "match " + loaded
}

// bounded describes a comparison, which may be the end of a range from least.
func bounded(loaded string, least []byte, c *expr.Cmp, bits int, mask []byte) string {
	switch {
	case least != nil && c.Op == expr.CmpOpLte:
		return rangeText(loaded, expr.CmpOpEq, least, c.Data)
	case least != nil: // without an end
		return "match " + compared(loaded, c, bits, mask)
	}
	return compared(loaded, c, bits, mask)
}

// rangeText describes a range of ports or addresses, with both ends.
func rangeText(loaded string, op expr.CmpOp, from, to []byte) string {
	not := map[bool]string{true: "not "}[op == expr.CmpOpNeq]
	first, ok := netip.AddrFromSlice(from)
	last, too := netip.AddrFromSlice(to)
	switch {
	case (loaded == "sport" || loaded == "dport") && len(from) == 2 && len(to) == 2:
		return not + portsText(loaded, binary.BigEndian.Uint16(from), binary.BigEndian.Uint16(to))
	case (loaded == "saddr" || loaded == "daddr") && ok && too:
		return not + loaded + " " + first.String() + "-" + last.String()
	}
	return "match"
}

// deviceText returns an interface name. A trailing + marks a prefix.
func deviceText(name []byte) string {
	if slices.Contains(name, 0) {
		return text(name)
	}
	return string(name) + "+"
}

func matched(m *expr.Match) string {
	switch info := m.Info.(type) {
	case *xt.Tcp:
		return tcpText(info.SrcPorts, info.DstPorts, info.Option, info.FlagsMask, info.FlagsCmp, byte(info.InvFlags))
	case *xt.Udp:
		return udpText(info.SrcPorts, info.DstPorts, byte(info.InvFlags))
	case *xt.ConntrackMtinfo1:
		return ofStates(info.ConntrackMtinfoBase, uint16(info.StateMask))
	case *xt.ConntrackMtinfo2:
		return ofStates(info.ConntrackMtinfoBase, info.StateMask)
	case *xt.ConntrackMtinfo3:
		return ofStates(info.ConntrackMtinfoBase, info.StateMask)
	case *xt.AddrTypeV1:
		return kindsText(info.Source, info.Dest, uint32(info.Flags))
	case *xt.Comment:
		return ""
	case *xt.Unknown:
		if m.Name == "multiport" && m.Rev == 1 {
			return multiportText(*info)
		}
	}
	return "match " + m.Name
}

// ofStates describes a match of iptables' extension conntrack, if it tests the state alone.
func ofStates(info xt.ConntrackMtinfoBase, mask uint16) string {
	if info.MatchFlags&^uint16(xt.ConntrackStateAlias) != uint16(xt.ConntrackState) {
		return "match conntrack"
	}
	return inverse(byte(info.InvertFlags), 0) + stateText(uint32(mask), xtStates)
}

func action(e expr.Any) string {
	switch e := e.(type) {
	case *expr.Verdict:
		name := map[expr.VerdictKind]string{expr.VerdictReturn: "return", expr.VerdictGoto: "goto", expr.VerdictJump: "jump",
			expr.VerdictDrop: "drop", expr.VerdictAccept: "accept", expr.VerdictQueue: "queue"}[e.Kind]
		return strings.TrimSpace(name + " " + e.Chain)
	case *expr.Reject:
		return "reject"
	case *expr.Notrack:
		return "notrack"
	case *expr.Masq:
		return "masquerade"
	case *expr.NAT:
		return "nat"
	case *expr.Redir:
		return "redirect"
	case *expr.Queue:
		return "queue"
	case *expr.TProxy:
		return "tproxy"
	case *expr.SynProxy:
		return "synproxy"
	case *expr.Dup:
		return "dup"
	case *expr.FlowOffload:
		return "flow offload"
	case *expr.Limit:
		return "limit"
	case *expr.Connlimit:
		return "connlimit"
	case *expr.Target:
		if info, ok := e.Info.(*xt.Unknown); ok && info != nil && e.Name == "CT" {
			return legacyVerdict(e.Name, *info, nil, 0)
		}
		return strings.ToLower(e.Name)
	case *expr.Quota, *expr.Dynset: // conditions
		return "match"
	}
	return ""
}
