package kernel

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
)

// A Flow is a connection as its sender sees it.
type Flow struct {
	Proto    int // 6 or 17
	From, To netip.AddrPort
}

// ErrNotTracked reports that the kernel has no entry for a connection. Either a rule exempts it, or
// it ended before it opened.
var ErrNotTracked = errors.New("the kernel does not track this connection")

// Foreign reports whether a chain belongs neither to kube-proxy nor to Calico. Chains KUBE-HP-* are a runtime's.
func Foreign(table, chain string) bool {
	return table != "kube-proxy" && table != "calico" && !OfServices(table, chain) && !strings.HasPrefix(chain, "cali-")
}

// OfServices reports whether a chain has Service rules of a kube-proxy in iptables mode.
func OfServices(_, chain string) bool {
	kind, _, _ := strings.Cut(strings.TrimPrefix(chain, "KUBE-"), "-")
	return strings.HasPrefix(chain, "KUBE-") && slices.Contains([]string{"SEP", "SVC", "SVL", "EXT", "FW"}, kind)
}

// OfHostPort reports whether a chain is for a hostPort. Such chains come from the CNI plugin portmap, or from CRI-O.
func OfHostPort(table, chain string) bool {
	prefixes := []string{"CNI-DN-", "CNI-HOSTPORT-", "KUBE-HP-", "KUBE-HOSTPORTS"}
	return table == "cni_hostport" ||
		slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(chain, prefix) })
}

// Flags in the address range of a target (NF_NAT_RANGE_MAP_IPS and NF_NAT_RANGE_PROTO_SPECIFIED in
// linux/netfilter/nf_nat.h).
const (
	rangeAddresses = 1 << 0
	rangePorts     = 1 << 1
)

// diverted parses an iptables target that redirects packets. It returns false for other targets. The revisions are
// defined in net/netfilter/xt_nat.c, xt_REDIRECT.c and xt_TPROXY.c. Revision 0 has IPv4 addresses, and later revisions
// have space for IPv6.
func diverted(target string, revision byte, v4 bool, data []byte) (does string, to netip.AddrPort, is bool) {
	does = map[string]string{"DNAT": DoesDNAT, "REDIRECT": DoesRedirect, "TPROXY": DoesTProxy}[target]
	size := 16
	if revision == 0 {
		size = 4
	}
	switch {
	case does == "":
		return "", to, false
	case does == DoesTProxy: // struct xt_tproxy_target_info: mask, mark, address, port
		if len(data) >= 8+size+2 {
			to = rangeStart(data[8:8+size], v4, binary.BigEndian.Uint16(data[8+size:]))
		}
		return does, to, true
	case revision == 0 && v4: // struct nf_nat_ipv4_multi_range_compat begins with a count
		data = data[min(4, len(data)):]
	}
	const flags = 4
	if len(data) < flags+2*size+4 {
		return does, to, true
	}
	has := binary.NativeEndian.Uint32(data)
	first, last := data[flags:flags+size], data[flags+size:flags+2*size]
	port, lastPort := binary.BigEndian.Uint16(data[flags+2*size:]), binary.BigEndian.Uint16(data[flags+2*size+2:])
	if has&rangePorts == 0 || port != lastPort {
		port = 0
	}
	if has&rangeAddresses == 0 || !slices.Equal(first, last) {
		first = nil
	}
	return does, rangeStart(first, v4, port), true
}

// rangeStart returns an address and a port. An IPv4 address occupies the first bytes of a field
// that has space for IPv6.
func rangeStart(addr []byte, v4 bool, port uint16) netip.AddrPort {
	if v4 && len(addr) > 4 {
		addr = addr[:4]
	}
	a, _ := netip.AddrFromSlice(addr)
	if a.IsUnspecified() {
		a = netip.Addr{}
	}
	return netip.AddrPortFrom(a, port)
}

// legacyDiversions lists such rules in the entries of a legacy iptables table.
func legacyDiversions(l legacyLayout, info legacyInfo, entries []byte) ([]PacketRule, error) {
	var out []PacketRule
	chain, place := "", uint64(0)
	err := legacyEach(l, entries, func(at, next int, rest []byte, begin int) {
		target, data := legacyTarget(rest, begin, next-at)
		if hook := info.hookAt(info.First, at); hook >= 0 {
			chain, place = strings.ToUpper(hookNames[hook]), 0
		}
		if target == "ERROR" {
			chain, place = text(data), 0
			return
		}
		place++
		does, to, is := diverted(target, rest[begin+targetHead-1], l == legacy4, data)
		if !is {
			return
		}
		r := legacyAbout(l, rest[:begin])
		r.Partly = r.Partly || r.In != "" || r.Out != ""
		r.Chain, r.Handle, r.Does, r.Sends, r.Wall = chain, place, does, to, WallLegacy
		out = append(out, r)
	})
	return out, err
}
