package kernel

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
)

// Untracked lists the rules in all firewalls that exempt packets from connection tracking, except
// for Calico's own rules.
func Untracked(h *probe.Host) ([]PacketRule, error) {
	var out []PacketRule
	if _, err := generation(); !errors.Is(err, fs.ErrNotExist) {
		if out, err = steady(listUntracked); err != nil {
			return nil, err
		}
	}
	if err := legacyTables(h, "raw", func(t legacyFound) error {
		rules, err := legacyUntracked(t.layout, t.info, t.entries)
		for _, r := range rules {
			r.Family, r.Table, r.TableFamily = t.family, t.name, map[int]string{4: "ip", 6: "ip6"}[t.family]
			out = append(out, r)
		}
		return err
	}); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(out, func(r PacketRule) bool { return strings.HasPrefix(r.Chain, "cali-") }), nil
}

// beforeTracking is the priority of the kernel's connection tracking. Chains that run later cannot
// exempt packets from it.
const beforeTracking = -200

// maxChains is the maximum number of chains whose rules are read.
const maxChains = 200

func listUntracked() ([]PacketRule, error) {
	var c nftables.Conn
	var out []PacketRule
	for f, number := range nftFamilies {
		chains, err := c.ListChainsOfTableFamily(f)
		if err != nil {
			return nil, fmt.Errorf("listing the chains of nftables: %w", firewallError(err))
		}
		early := map[string]bool{} // tables with a chain that runs before connection tracking
		for _, n := range chains {
			if n.Priority != nil && n.Hooknum != nil && int32(*n.Priority) < beforeTracking {
				early[n.Table.Name] = true
			}
		}
		read := 0
		for _, n := range chains {
			if !early[n.Table.Name] || n.Table.Name == "calico" || n.Table.Name == "kube-proxy" ||
				strings.HasPrefix(n.Name, "cali-") || read >= maxChains {
				continue
			}
			read++
			rules, err := c.GetRules(n.Table, n)
			if err != nil {
				return nil, fmt.Errorf("listing the rules of %s: %w", n.Name, firewallError(err))
			}
			for _, r := range rules {
				if one, is := untrackedBy(r.Exprs); is {
					one.Family, one.TableFamily, one.Table, one.Chain = number, familyNames[f], n.Table.Name, n.Name
					one.Hook, one.Handle, one.Wall = hookOf(n), r.Handle, cmp.Or(one.Wall, wallOfTable(familyNames[f], n.Table.Name))
					out = append(out, one)
				}
			}
		}
	}
	return out, nil
}

// hookOf returns the hook of a base chain, or "" for any other chain.
func hookOf(n *nftables.Chain) string {
	if n.Hooknum == nil || int(*n.Hooknum) >= len(hookNames) {
		return ""
	}
	return hookNames[*n.Hooknum]
}

// untrackedBy parses an nftables rule. It returns false if the rule does not exempt packets from tracking.
func untrackedBy(exprs []expr.Any) (r PacketRule, is bool) {
	var field *expr.Payload // what the next comparison tests
	var mask []byte
	meta := expr.MetaKey(0)
	for _, e := range exprs {
		switch e := e.(type) {
		case *expr.Notrack: // iptables writes a target instead, and cannot read this
			is, r.Wall = true, WallNative
		case *expr.Target:
			is = is || e.Name == "NOTRACK" || e.Name == "CT" && notracks(e.Info)
		case *expr.Payload:
			field, mask = e, nil
		case *expr.Meta:
			field, meta = nil, e.Key
		case *expr.Bitwise:
			mask = e.Mask
		case *expr.Cmp:
			r.compare(field, meta, mask, e)
		case *expr.Match:
			r.extension(e)
		case *expr.Counter, *expr.Verdict:
		default:
			r.Partly = true
		}
	}
	if is {
		r.Does = doesNotrack
	}
	return r, is
}

// notracks reports whether the target CT disables tracking (XT_CT_NOTRACK).
func notracks(info xt.InfoAny) bool {
	raw, ok := info.(*xt.Unknown)
	return ok && len(*raw) >= 2 && binary.NativeEndian.Uint16(*raw)&1 != 0
}

// compare adds the condition from one comparison.
func (r *PacketRule) compare(field *expr.Payload, meta expr.MetaKey, mask []byte, c *expr.Cmp) {
	switch {
	case c.Op != expr.CmpOpEq:
		r.Partly = true
	case field == nil && meta == expr.MetaKeyL4PROTO && len(c.Data) > 0:
		r.Proto = int(c.Data[0])
	case field == nil && (meta == expr.MetaKeyNFPROTO || meta == expr.MetaKeyPROTOCOL):
	case field == nil && meta == expr.MetaKeyIIFNAME:
		r.In = interfaceOf(c.Data)
	case field == nil && meta == expr.MetaKeyOIFNAME:
		r.Out = interfaceOf(c.Data)
	case field == nil && (meta == expr.MetaKeyIIF || meta == expr.MetaKeyOIF) && len(c.Data) == 4:
		link, err := net.InterfaceByIndex(int(binary.NativeEndian.Uint32(c.Data)))
		switch {
		case err != nil: // the interface is gone
			r.Partly = true
		case meta == expr.MetaKeyIIF:
			r.In = link.Name
		default:
			r.Out = link.Name
		}
	case field == nil:
		r.Partly = true
	case field.Base == expr.PayloadBaseTransportHeader && field.Offset == 2 && len(c.Data) == 2:
		port := int(binary.BigEndian.Uint16(c.Data))
		r.ToPorts = [2]int{port, port}
	case field.Base == expr.PayloadBaseTransportHeader && field.Offset == 0 && len(c.Data) == 2:
		port := int(binary.BigEndian.Uint16(c.Data))
		r.FromPorts = [2]int{port, port}
	case field.Base == expr.PayloadBaseNetworkHeader && field.Offset == 9 && len(c.Data) == 1:
		r.Proto = int(c.Data[0])
	case field.Base == expr.PayloadBaseNetworkHeader && field.Offset == 12 && len(c.Data) <= 4:
		r.From = prefixIn(c.Data, mask, 4)
	case field.Base == expr.PayloadBaseNetworkHeader && field.Offset == 16 && len(c.Data) <= 4:
		r.To = prefixIn(c.Data, mask, 4)
	case field.Base == expr.PayloadBaseNetworkHeader && field.Offset == 8:
		r.From = prefixIn(c.Data, mask, 16)
	case field.Base == expr.PayloadBaseNetworkHeader && field.Offset == 24:
		r.To = prefixIn(c.Data, mask, 16)
	default:
		r.Partly = true
	}
}

// prefixIn returns an address as a prefix, because the rule may compare only its first bytes.
func prefixIn(data, mask []byte, size int) netip.Prefix {
	full, bits := make([]byte, size), make([]byte, size)
	copy(full, data)
	for i := range min(len(data), size) {
		bits[i] = 0xff
	}
	if mask != nil {
		copy(bits, mask)
	}
	return masked(full, bits)
}

// extension adds the condition from an iptables extension.
func (r *PacketRule) extension(m *expr.Match) {
	between := func(p [2]uint16) [2]int { return portsOf(int(p[0]), int(p[1])) }
	switch info := m.Info.(type) {
	case *xt.Tcp:
		r.Proto, r.FromPorts, r.ToPorts = unix.IPPROTO_TCP, between(info.SrcPorts), between(info.DstPorts)
		r.Partly = r.Partly || info.InvFlags != 0
	case *xt.Udp:
		r.Proto, r.FromPorts, r.ToPorts = unix.IPPROTO_UDP, between(info.SrcPorts), between(info.DstPorts)
		r.Partly = r.Partly || info.InvFlags != 0
	case *xt.Comment:
	default:
		r.Partly = r.Partly || m.Name != "comment"
	}
}
