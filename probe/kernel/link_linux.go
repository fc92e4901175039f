package kernel

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Undisturbed repeats a listing by netlink, twice at most, if the table changed while it was being listed.
func Undisturbed[T any](list func() (T, error)) (out T, err error) {
	for range 3 {
		if out, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return out, err
}

// Links lists the interfaces in the order in which they were created.
func Links() ([]Link, error) {
	links, err := Undisturbed(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("listing interfaces: %w", err)
	}
	on, err := addresses(nil)
	if err != nil {
		return nil, err
	}
	names := devices{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	var out []Link
	for _, l := range links {
		one := names.link(l)
		one.Addrs = on[one.Index]
		out = append(out, one)
	}
	return out, nil
}

// LinkNamed returns one interface.
func LinkNamed(name string) (Link, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return Link{}, fmt.Errorf("looking up interface %s: %w", name, err)
	}
	on, err := addresses(l)
	if err != nil {
		return Link{}, err
	}
	out := devices{}.link(l)
	out.Addrs = on[out.Index]
	return out, nil
}

// addresses returns the addresses of an interface by its index. nil means the addresses of all interfaces.
func addresses(of netlink.Link) (map[int][]netip.Prefix, error) {
	list, err := Undisturbed(func() ([]netlink.Addr, error) { return netlink.AddrList(of, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	out := map[int][]netip.Prefix{}
	for _, a := range list {
		out[a.LinkIndex] = append(out[a.LinkIndex], prefixOf(a.IPNet, true))
	}
	return out, nil
}

func (d devices) link(l netlink.Link) Link {
	a := l.Attrs()
	out := Link{Index: a.Index, Name: a.Name, Kind: l.Type(), MTU: a.MTU, Up: a.RawFlags&unix.IFF_UP != 0,
		Carrier: a.RawFlags&unix.IFF_LOWER_UP != 0, State: a.OperState.String(),
		Loopback: a.RawFlags&unix.IFF_LOOPBACK != 0, MAC: a.HardwareAddr.String(), Master: d.name(a.MasterIndex)}
	out.State = settled(out, a.OperState)
	if v, ok := l.(*netlink.Vxlan); ok {
		out.VXLAN = &VXLAN{VNI: v.VxlanId, Port: v.Port, Local: addrOf(v.SrcAddr), External: v.FlowBased}
	}
	if s := a.Statistics; s != nil {
		out.Counters = Counters{BytesIn: s.RxBytes, BytesOut: s.TxBytes, ErrorsIn: s.RxErrors, ErrorsOut: s.TxErrors,
			DropsIn: s.RxDropped, DropsOut: s.TxDropped}
	}
	return out
}

// settled returns the state that an interface is about to enter. The state follows the carrier flag within a
// second. On a busy machine, it takes longer.
func settled(l Link, state netlink.LinkOperState) string {
	switch {
	case !l.Carrier && state == netlink.OperUp:
		return netlink.LinkOperState(netlink.OperLowerLayerDown).String()
	case l.Up && l.Carrier && (state == netlink.OperLowerLayerDown || state == netlink.OperDown):
		return netlink.LinkOperState(netlink.OperUp).String()
	}
	return state.String()
}

// devices caches the names of interfaces by index.
type devices map[int]string

// namesOf returns the names of all interfaces with a single query, instead of one query for each interface. It
// looks up missing names when they are needed.
func namesOf() devices {
	names := devices{}
	links, _ := netlink.LinkList()
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	return names
}

func (d devices) name(index int) string {
	if index == 0 {
		return ""
	}
	name, ok := d[index]
	if !ok {
		name = fmt.Sprintf("if%d", index) // it was just deleted
		if l, err := netlink.LinkByIndex(index); err == nil {
			name = l.Attrs().Name
		}
		d[index] = name
	}
	return name
}

// Neighbours lists the ARP table (family 4) or the NDP table (6).
func Neighbours(family int) ([]Neighbour, error) {
	out, err := namesOf().neighbours(0, addressFamily(family))
	if err != nil {
		return nil, fmt.Errorf("listing neighbours: %w", err)
	}
	return out, nil
}

// NeighboursOn lists the neighbours of one interface. It also lists the forwarding table of a bridge or VXLAN
// interface, which maps a MAC to the address to which packets are sent.
func NeighboursOn(l Link, family int) (neighbours, forwarding []Neighbour, err error) {
	names := devices{l.Index: l.Name}
	if forwarding, err = names.neighbours(l.Index, unix.AF_BRIDGE); err != nil {
		return nil, nil, fmt.Errorf("listing forwarding entries: %w", err)
	}
	if neighbours, err = names.neighbours(l.Index, addressFamily(family)); err != nil {
		return nil, nil, fmt.Errorf("listing neighbours: %w", err)
	}
	return neighbours, forwarding, nil
}

// neighbours lists the table of one interface, or of all interfaces if the index is 0. It ignores
// entries without an address.
func (d devices) neighbours(index, family int) ([]Neighbour, error) {
	list, err := Undisturbed(func() ([]netlink.Neigh, error) { return netlink.NeighList(index, family) })
	if err != nil {
		return nil, err
	}
	var out []Neighbour
	for _, n := range list {
		if a := addrOf(n.IP); a.IsValid() {
			out = append(out, Neighbour{a, d.name(n.LinkIndex), n.HardwareAddr.String(), NeighbourStates[n.State],
				n.Flags&netlink.NTF_ROUTER != 0})
		}
	}
	return out, nil
}
