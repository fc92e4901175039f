package cluster

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/netpolicy/selector"
)

// ipam holds the data, in addition to pools and affinities, that decides whether a new pod gets an address.
type ipam struct {
	Config map[string]any // spec of the only IPAMConfig; empty if it does not exist
	rsvd   []netip.Prefix
}

// ReadIPAM reads IPAM's settings. Calico's API server serves the resource under another name.
func (c *Client) ReadIPAM(ctx context.Context) (out ipam, err error) {
	configs, err := c.listSpecs(ctx, "ipamconfigs", 0)
	if err == nil && configs == nil {
		configs, err = c.listSpecs(ctx, "ipamconfigurations", 0)
	}
	out.Config = configs["default"]
	reservations, unreserved := c.listSpecs(ctx, "ipreservations", 0)
	for _, name := range slices.Sorted(maps.Keys(reservations)) {
		list, _ := reservations[name]["reservedCIDRs"].([]any)
		for _, item := range list {
			text, _ := item.(string)
			if p, err := netip.ParsePrefix(text); err == nil {
				out.rsvd = append(out.rsvd, p.Masked())
			} else if a, err := netip.ParseAddr(text); err == nil {
				out.rsvd = append(out.rsvd, netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}
	return out, cmp.Or(unreserved, err)
}

// PoolFor returns a pool's range, and reports whether pods on a node may get addresses from the pool.
func PoolFor(n *corev1.Node, spec map[string]any) (netip.Prefix, bool) {
	cidr, ok := CIDROf(spec)
	off, _ := spec["disabled"].(bool)
	mode, _ := spec["assignmentMode"].(string)
	uses, set := spec["allowedUses"].([]any)
	if !ok || off || mode == "Manual" || set && len(uses) > 0 && !slices.Contains(uses, any("Workload")) {
		return cidr, false
	}
	text, _ := spec["nodeSelector"].(string)
	if text == "" {
		return cidr, true
	}
	selects, err := selector.Parse(text)
	return cidr, err != nil || selects(n.Labels) // an invalid selector may select the node
}

// CIDROf returns an IP pool's range, or false if the range cannot be parsed.
func CIDROf(spec map[string]any) (netip.Prefix, bool) {
	text, _ := spec["cidr"].(string)
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err == nil
}

// manyBlocks is the maximum number of a pool's blocks to count. IPv6 pools have millions of blocks.
const manyBlocks = 1 << 20

// Unclaimed returns the number of a pool's blocks that have no owner.
func (i *ipam) Unclaimed(blocks Specs, pool netip.Prefix, spec map[string]any) int {
	size, _ := spec["blockSize"].(int64)
	if size == 0 {
		size = map[bool]int64{false: 26, true: 122}[pool.Addr().Is6()]
	}
	bits := int(size) - pool.Bits()
	if bits < 0 || bits > 20 {
		return manyBlocks
	}
	there := map[netip.Prefix]bool{}
	for _, b := range blocks {
		if cidr, ok := CIDROf(b); ok && pool.Contains(cidr.Addr()) {
			there[cidr] = true
		}
	}
	left := 1<<bits - len(there)
	for _, r := range i.rsvd { // skip fully reserved blocks
		if pool.Contains(r.Addr()) && r.Bits() <= int(size) {
			left -= 1 << (int(size) - max(r.Bits(), pool.Bits()))
		}
	}
	return max(0, left)
}

// Free returns the number of a block's unassigned addresses, and how many of them are reserved.
func (i *ipam) Free(cidr netip.Prefix, spec map[string]any) (free, reserved int) {
	list, _ := spec["unallocated"].([]any)
	for _, item := range list {
		at, ok := item.(int64)
		if !ok || at < 0 || at > 1<<16 {
			continue
		}
		addr := after(cidr.Addr(), int(at))
		if slices.ContainsFunc(i.rsvd, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			reserved++
		} else {
			free++
		}
	}
	return free, reserved
}

// after returns the nth address after a.
func after(a netip.Addr, n int) netip.Addr {
	b := a.AsSlice()
	for at := len(b) - 1; at >= 0 && n > 0; at-- {
		n += int(b[at])
		b[at] = byte(n)
		n >>= 8
	}
	out, _ := netip.AddrFromSlice(b)
	return out
}

// GivenIn lists the addresses that pods hold in a block. For each assigned address, allocations has an index into
// attributes.
func GivenIn(spec map[string]any) []Loan {
	cidr, ok := CIDROf(spec)
	if !ok {
		return nil
	}
	allocations, _ := spec["allocations"].([]any)
	attributes, _ := spec["attributes"].([]any)
	var out []Loan
	for at, a := range allocations {
		i, given := a.(int64)
		if !given || i < 0 || i >= int64(len(attributes)) {
			continue
		}
		attribute, _ := attributes[i].(map[string]any)
		of, _ := attribute["secondary"].(map[string]any)
		l := Loan{Addr: after(cidr.Addr(), at)}
		l.Node, _ = of["node"].(string)
		l.Namespace, _ = of["namespace"].(string)
		l.Name, _ = of["pod"].(string)
		if l.Node != "" && l.Name != "" {
			out = append(out, l)
		}
	}
	return out
}

// LoansIn returns the borrowed addresses of one IPAM block.
func LoansIn(spec map[string]any) []Loan {
	affinity, _ := spec["affinity"].(string)
	owner, ok := strings.CutPrefix(affinity, "host:")
	if !ok {
		return nil
	}
	return slices.DeleteFunc(GivenIn(spec), func(l Loan) bool { return l.Node == owner })
}
