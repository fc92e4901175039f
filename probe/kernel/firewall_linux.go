package kernel

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"unsafe"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/span"
)

// firewallError translates errors from the kernel about its firewall. The process may lack a right, or this kernel
// may not have such a firewall (EINVAL, from netlink itself). It returns other errors unchanged.
func firewallError(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the firewall, without the capability NET_ADMIN: %w", probe.ErrNotVisible)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("not in this kernel: %w", fs.ErrNotExist)
	}
	return err
}

// steady repeats a listing if the nftables rules changed while they were being listed. The nftables
// library does not report such a change.
func steady[T any](list func() (T, error)) (T, error) {
	return Undisturbed(func() (out T, err error) {
		before, err := generation()
		if err != nil {
			return out, err
		}
		out, err = list()
		if after, other := generation(); other != nil || !slices.Equal(before, after) {
			err = netlink.ErrDumpInterrupted
		}
		return out, err
	})
}

// generation returns the kernel's generation number of the nftables rules. Each change increments it.
func generation() ([]byte, error) {
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETGEN, 0)
	req.AddRawData(make([]byte, nl.SizeofNfgenmsg))
	answers, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return nil, fmt.Errorf("reading the generation of the nftables rules: %w", firewallError(err))
	}
	for _, m := range answers {
		attrs, err := nl.ParseRouteAttr(m[min(len(m), nl.SizeofNfgenmsg):])
		if err != nil {
			continue
		}
		for _, a := range attrs {
			if a.Attr.Type == unix.NFTA_GEN_ID {
				return a.Value, nil
			}
		}
	}
	return nil, errors.New("the kernel reports no generation of the nftables rules")
}

// nftFamilies lists the table families that see IPv4 or IPv6 packets.
var nftFamilies = map[nftables.TableFamily]int{nftables.TableFamilyIPv4: 4, nftables.TableFamilyIPv6: 6,
	nftables.TableFamilyINet: 0}

// maxRead is the maximum number of wanted chains whose rules are read. The chains that all
// forwarded packets pass do not count.
const maxRead = 300

// NFTChains lists the chains of nftables and iptables-nft that the caller wants or that see all forwarded packets. It
// returns no chains if the kernel has no nftables. It reads the rules of chains that see all forwarded packets. It also
// reads the rules of at most maxRead wanted chains that read selects. At the first query, the kernel loads its nftables
// module, as it does for nft and iptables-nft.
func NFTChains(wanted, read func(Chain) bool) ([]Chain, error) {
	if _, err := generation(); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return steady(func() ([]Chain, error) { return listChains(wanted, read) })
}

func listChains(wanted, read func(Chain) bool) ([]Chain, error) {
	var c nftables.Conn
	var out []Chain
	count := 0
	for f, number := range nftFamilies {
		chains, err := c.ListChainsOfTableFamily(f)
		if err != nil {
			return nil, fmt.Errorf("listing the chains of nftables: %w", firewallError(err))
		}
		for _, n := range chains {
			next := Chain{Family: number, Table: n.Table.Name, Name: n.Name}
			if n.Hooknum != nil && *n.Hooknum == *nftables.ChainHookForward && n.Type == nftables.ChainTypeFilter {
				next.Forward = true
				next.Drops = n.Policy != nil && *n.Policy == nftables.ChainPolicyDrop
			}
			more := !next.Forward && count < maxRead && wanted(next) && read(next)
			if more {
				count++
			}
			if next.Forward || more {
				if next.Jumps, next.Refuses, err = nftRules(&c, n); err != nil {
					return nil, err
				}
			}
			if next.Forward || wanted(next) {
				out = append(out, next)
			}
		}
	}
	return out, nil
}

// nftRules lists the chains to which a chain's rules jump, and reports whether a rule drops or rejects packets.
func nftRules(c *nftables.Conn, of *nftables.Chain) (jumps []string, refuses bool, err error) {
	rules, err := c.GetRules(of.Table, of)
	if err != nil {
		return nil, false, fmt.Errorf("listing the rules of %s: %w", of.Name, firewallError(err))
	}
	for _, r := range rules {
		refused, byState := false, false
		for _, e := range r.Exprs {
			switch e := e.(type) {
			case *expr.Verdict:
				if e.Chain != "" {
					jumps = append(jumps, e.Chain)
				}
				refused = refused || e.Kind == expr.VerdictDrop
			case *expr.Reject:
				refused = true
			case *expr.Target:
				refused = refused || e.Name == "REJECT" || e.Name == "DROP"
			case *expr.Ct:
				byState = true
			case *expr.Match:
				byState = byState || e.Name == "conntrack" || e.Name == "state"
			}
		}
		refuses = refuses || refused && !byState
	}
	return jumps, refuses, nil
}

const maxMembers = 100_000 // boundaries that NFTSet keeps

// NFTSet returns the wanted addresses in a named nftables set, and the ranges with two wanted ends. A blocklist has up
// to a million elements, so only the wanted ones are kept. It returns ErrNotExist if the set does not exist. family is
// that of a Wall.
func NFTSet(family, table, name string, wanted func(netip.Addr) bool) ([]span.Span, error) {
	return steady(func() ([]span.Span, error) { return listSet(family, table, name, wanted) })
}

func listSet(family, table, name string, wanted func(netip.Addr) bool) ([]span.Span, error) {
	request := make([]byte, nl.SizeofNfgenmsg)
	for number, known := range familyNames {
		if known == family {
			request[0] = byte(number)
		}
	}
	request = append(request, nl.NewRtAttr(unix.NFTA_SET_ELEM_LIST_TABLE, nl.ZeroTerminated(table)).Serialize()...)
	request = append(request, nl.NewRtAttr(unix.NFTA_SET_ELEM_LIST_SET, nl.ZeroTerminated(name)).Serialize()...)
	var keys []span.Boundary
	intervals := false
	err := nftList(unix.NFT_MSG_GETSETELEM, unix.NFT_MSG_NEWSETELEM, func(_ nftables.TableFamily, of []nftAttr) {
		for _, list := range of {
			for _, element := range nftAttrs(list.data) {
				if list.kind != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
					break
				}
				key := boundaryOf(nftAttrs(element.data))
				if intervals = intervals || key.End; wanted(key.Addr) && len(keys) < maxMembers {
					keys = append(keys, key)
				}
			}
		}
	}, request...)
	if len(keys) == maxMembers {
		err = cmp.Or(err, errManyRules)
	}
	return span.Join(keys, intervals), err
}

// boundaryOf parses a set's element. The address is invalid if the element is something else.
func boundaryOf(element []nftAttr) (out span.Boundary) {
	for _, a := range element {
		switch a.kind {
		case unix.NFTA_SET_ELEM_FLAGS:
			out.End = len(a.data) == 4 && binary.BigEndian.Uint32(a.data)&unix.NFT_SET_ELEM_INTERVAL_END != 0
		case unix.NFTA_SET_ELEM_KEY:
			for _, value := range nftAttrs(a.data) {
				out.Addr, _ = netip.AddrFromSlice(value.data)
			}
		}
	}
	return out
}

// IPSet returns the addresses in an ipset. It returns ErrNotExist if the ipset does not exist.
func IPSet(name string) ([]span.Span, error) {
	set, err := netlink.IpsetList(name)
	if err != nil {
		return nil, fmt.Errorf("listing the ipset %s: %w", name, firewallError(err))
	}
	var out []span.Span
	for _, e := range set.Entries {
		a, ok := netip.AddrFromSlice(e.IP)
		if !ok {
			continue
		}
		a = a.Unmap()
		bits := a.BitLen()
		if e.CIDR != 0 {
			bits = int(e.CIDR)
		}
		if p, err := a.Prefix(bits); err == nil {
			out = append(out, span.Span{First: p.Addr(), Last: span.Last(p)})
		}
	}
	return out, nil
}

// maxTable is the maximum size of a legacy iptables table that is read: about 80,000 rules. The kernel can only
// return a table as a whole.
const maxTable = 16 << 20

// legacyFound is a legacy iptables table as the kernel returns it.
type legacyFound struct {
	family  int // 4 or 6
	name    string
	layout  legacyLayout
	info    legacyInfo
	entries []byte
}

// legacyTables reads the tables with the given name in both families. "" means all tables. It skips tables that are
// not loaded, because the kernel would load a table if it were queried.
func legacyTables(h *probe.Host, name string, each func(legacyFound) error) error {
	for _, l := range []struct {
		family, af, level int
		names             string
		layout            legacyLayout
	}{
		{4, unix.AF_INET, unix.SOL_IP, "net/ip_tables_names", legacy4},
		{6, unix.AF_INET6, unix.SOL_IPV6, "net/ip6_tables_names", legacy6},
	} {
		text, err := ReadProc(h, l.names)
		if errors.Is(err, fs.ErrNotExist) {
			continue // this kernel does not have the file
		}
		if err != nil {
			return err
		}
		for table := range strings.FieldsSeq(text) {
			if name != "" && table != name {
				continue
			}
			info, entries, err := legacyTable(l.af, l.level, table)
			if err == nil {
				err = each(legacyFound{l.family, table, l.layout, info, entries})
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// LegacyChains lists the chains of a legacy iptables table in this network namespace. If the table is not loaded,
// LegacyChains returns no chains. It does not query the table, because the kernel would then load it.
func LegacyChains(h *probe.Host, table string) ([]Chain, error) {
	var out []Chain
	err := legacyTables(h, table, func(t legacyFound) error {
		chains, err := legacyParse(t.layout, t.info, t.entries)
		for _, c := range chains {
			c.Family, c.Table = t.family, t.name
			out = append(out, c)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// IPT_SO_GET_INFO and IPT_SO_GET_ENTRIES in linux/netfilter_ipv4/ip_tables.h. The IPv6 options have the same numbers.
const (
	getInfo    = 64
	getEntries = 65
	nameLength = 32 // length of a table's name
)

// legacyTable reads a legacy iptables table from the kernel.
func legacyTable(af, level int, table string) (legacyInfo, []byte, error) {
	var info legacyInfo
	fd, err := unix.Socket(af, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return info, nil, fmt.Errorf("reading legacy iptables: %w", firewallError(err))
	}
	defer unix.Close(fd)
	for range 3 { // its size may change between the two calls
		head := make([]byte, nameLength+binary.Size(info)) // struct ipt_getinfo
		copy(head, table)
		if err = getsockopt(fd, level, getInfo, head); err != nil {
			break
		}
		if _, err = binary.Decode(head[nameLength:], binary.NativeEndian, &info); err != nil {
			break
		}
		if info.Size > maxTable {
			return info, nil, fmt.Errorf("legacy iptables' %d MB of rules in %s, too many to read: %w", info.Size>>20,
				table, probe.ErrNotVisible)
		}
		// struct ipt_get_entries: the name, the size, and the entries aligned to 8.
		const header = nameLength + 8
		all := make([]byte, header+int(info.Size))
		copy(all, table)
		binary.NativeEndian.PutUint32(all[nameLength:], info.Size)
		if err = getsockopt(fd, level, getEntries, all); err == nil {
			return info, all[header:], nil
		}
		if !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return info, nil, fmt.Errorf("reading legacy iptables' table %s: %w", table, firewallError(err))
}

func getsockopt(fd, level, name int, buf []byte) error {
	size := uint32(len(buf))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
