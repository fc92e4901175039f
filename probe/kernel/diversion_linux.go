package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
)

// Diversions lists the rules in all firewalls that redirect packets, in the chains that in selects. If it cannot read
// everything, it returns the rules that it could read together with an error.
func Diversions(h *probe.Host, in func(table, chain string) bool) ([]PacketRule, error) {
	var out []PacketRule
	var failed error
	if _, err := generation(); !errors.Is(err, fs.ErrNotExist) {
		out, failed = steady(func() ([]PacketRule, error) { return nftDiversions(in) })
	}
	for _, table := range []string{"nat", "mangle"} {
		failed = errors.Join(failed, legacyTables(h, table, func(t legacyFound) error {
			rules, err := legacyDiversions(t.layout, t.info, t.entries)
			for _, r := range rules {
				r.Family, r.Table, r.TableFamily = t.family, t.name, map[int]string{4: "ip", 6: "ip6"}[t.family]
				out = append(out, r)
			}
			return err
		}))
	}
	return slices.DeleteFunc(out, func(r PacketRule) bool { return !in(r.Table, r.Chain) }), failed
}

// nftDiversions returns such rules from nftables and iptables-nft.
func nftDiversions(in func(table, chain string) bool) ([]PacketRule, error) {
	var out []PacketRule
	full := false
	err := nftList(unix.NFT_MSG_GETRULE, unix.NFT_MSG_NEWRULE, func(family nftables.TableFamily, attrs []nftAttr) {
		at, _, raw := nftRead(family, attrs)
		number, sees := nftFamilies[family]
		if !sees || !in(at.Table, at.Chain) || full {
			return
		}
		r, is := divertedBy(family, raw)
		if !is {
			return
		}
		r.Family, r.Table, r.Chain, r.TableFamily, r.Handle = number, at.Table, at.Chain, at.Family, at.Handle
		r.Wall = wallOfTable(at.Family, at.Table)
		out = append(out, r)
		full = len(out) >= maxRefusals
	})
	if err != nil {
		return nil, fmt.Errorf("listing the rules of nftables: %w", err)
	}
	if full {
		err = fmt.Errorf("nftables has more than %d rules that send packets elsewhere", maxRefusals)
	}
	return out, err
}

// divertedBy parses an nftables rule. It returns false if the rule does not redirect packets.
func divertedBy(family nftables.TableFamily, raw []byte) (r PacketRule, is bool) {
	var matches []expr.Any
	does, to, partly := "", netip.AddrPort{}, false
	registers := registers{}
	for _, e := range nftAttrs(raw) {
		name, data := nftExpr(e.data)
		switch name {
		case "immediate":
			registers.set(data)
		case "nat", "redir", "tproxy":
			if d, sent, diverts := registers.sent(byte(family), name, data); diverts {
				does, to = d, sent
			}
		case "target":
			if d, sent, diverts := targetOf(family, data); diverts {
				does, to = d, sent
			}
		case "counter", "log":
		case "meta", "payload", "bitwise", "cmp", "match":
			one := nftKinds[name]()
			if nftDecodes(byte(family), data, one) {
				matches = append(matches, one)
				break
			}
			fallthrough
		default: // a set, an address type, a limit, ...
			partly = true
		}
	}
	r, _ = untrackedBy(matches)
	r.Does, r.Sends, r.Partly = does, to, r.Partly || partly || r.In != "" || r.Out != ""
	return r, does != ""
}

// registers holds the values that an nftables rule has loaded into the kernel's registers.
type registers map[uint32][]byte

// set executes an immediate expression.
func (g registers) set(data []byte) {
	var value expr.Immediate
	if nftDecodes(0, data, &value) {
		g[value.Register] = value.Data
	}
}

// Attributes of the nftables expression tproxy (linux/netfilter/nf_tables.h). The library can write
// this expression but cannot read it.
const (
	tproxyAddress = 2
	tproxyPort    = 3
)

// sent returns the destination to which an expression sends packets. It returns false if an
// expression changes the packets' source.
func (g registers) sent(family byte, name string, data []byte) (does string, to netip.AddrPort, is bool) {
	var addr, lastAddr, port, lastPort uint32
	switch name {
	case "nat":
		var e expr.NAT
		if !nftDecodes(family, data, &e) || e.Type != expr.NATTypeDestNAT {
			return "", to, false
		}
		does, addr, lastAddr, port, lastPort = DoesDNAT, e.RegAddrMin, e.RegAddrMax, e.RegProtoMin, e.RegProtoMax
	case "redir":
		var e expr.Redir
		if !nftDecodes(family, data, &e) {
			return "", to, false
		}
		does, port, lastPort = DoesRedirect, e.RegisterProtoMin, e.RegisterProtoMax
	default:
		does = DoesTProxy
		for _, a := range nftAttrs(data) {
			switch {
			case len(a.data) != 4:
			case a.kind == tproxyAddress:
				addr = binary.BigEndian.Uint32(a.data)
			case a.kind == tproxyPort:
				port = binary.BigEndian.Uint32(a.data)
			}
		}
	}
	return does, netip.AddrPortFrom(g.address(addr, lastAddr), g.port(port, lastPort)), true
}

// address returns the address in a register. It is invalid if the address is part of a range.
func (g registers) address(register, last uint32) netip.Addr {
	if last != 0 && last != register && !slices.Equal(g[last], g[register]) {
		return netip.Addr{}
	}
	a, _ := netip.AddrFromSlice(g[register])
	return a
}

// port returns the port in a register, or 0 if the port is part of a range.
func (g registers) port(register, last uint32) uint16 {
	if last != 0 && last != register && !slices.Equal(g[last], g[register]) || len(g[register]) < 2 {
		return 0
	}
	return binary.BigEndian.Uint16(g[register])
}

// targetOf parses a target that iptables-nft stores in the iptables format.
func targetOf(family nftables.TableFamily, data []byte) (does string, to netip.AddrPort, is bool) {
	name, revision, info := "", uint32(0), []byte(nil)
	for _, a := range nftAttrs(data) {
		switch a.kind {
		case unix.NFTA_TARGET_NAME:
			name = text(a.data)
		case unix.NFTA_TARGET_REV:
			if len(a.data) == 4 {
				revision = binary.BigEndian.Uint32(a.data)
			}
		case unix.NFTA_TARGET_INFO:
			info = a.data
		}
	}
	return diverted(name, byte(revision), family == nftables.TableFamilyIPv4, info)
}

// nftDecodes parses an expression, and reports whether it succeeded. The library indexes into attributes that may be
// too short, which causes a panic (google/nftables v0.3.0, expr/verdict.go).
func nftDecodes(family byte, data []byte, into expr.Any) bool {
	return probe.Recovered(func() error { return expr.Unmarshal(family, data, into) }) == nil
}
