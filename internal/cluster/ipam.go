package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/netpolicy/selector"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// defaultBlocks is how many blocks IPAM gives one node where nobody set a limit (libcalico-go,
// lib/ipam/ipam.go, since v3.14).
const defaultBlocks = 20

// ipam is what decides whether a new pod gets an address, beside pools and affinities.
type ipam struct {
	config map[string]any // spec of the one IPAMConfig, empty where there is none
	rsvd   []netip.Prefix
}

// readIPAM reads IPAM's settings. Its resource has another name where Calico's API server shows it.
func (c *Client) readIPAM(ctx context.Context) (out ipam, err error) {
	configs, err := c.listSpecs(ctx, "ipamconfigs", 0)
	if err == nil && configs == nil {
		configs, err = c.listSpecs(ctx, "ipamconfigurations", 0)
	}
	out.config = configs["default"]
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

// room is what IPAM has for one more pod on the node, in one family of addresses.
type room struct {
	pools     []string // for the node, as "NAME (CIDR)"
	prefixes  []netip.Prefix
	others    []string // pools that are not for the node's pods, and why
	blocks    int      // of the node, in any pool
	limit     int      // how many it may have
	here      int      // free in blocks of the node
	elsewhere int      // free in blocks of others
	unclaimed int      // blocks that nobody has
	reserved  int      // free but for an IPReservation
	leaked    int      // kept for pods that are gone
	borrowed  int      // of the node's blocks, by pods elsewhere
	strict    bool
	closed    bool // no block is claimed any more
}

// short says why there is no address, "" where there is one.
func (r room) short() string {
	canClaim := r.unclaimed > 0 && !r.closed
	switch {
	case len(r.pools) == 0:
		return facts.ShortNoPool
	case r.here > 0:
		return ""
	case r.blocks >= r.limit:
		return facts.ShortLimit
	case canClaim:
		return ""
	case r.elsewhere > 0 && !r.strict:
		return ""
	case r.unclaimed > 0:
		return facts.ShortNoBlocks
	case r.elsewhere > 0:
		return facts.ShortStrict
	}
	return facts.ShortFull
}

// roomFor counts what there is for one more pod, false where that cannot be told: another IPAM,
// or not all was read.
func roomFor(s *Snapshot, v6 bool) (room, bool) {
	err := cmp.Or(s.pools.Err, s.blocks.Err, s.ipam.Err)
	if err != nil || s.blocks.Value.partly || len(s.blocks.Value.specs) == 0 {
		return room{}, false
	}
	r := room{limit: defaultBlocks}
	if n, ok := s.ipam.Value.config["maxBlocksPerHost"].(int64); ok && n > 0 {
		r.limit = int(n)
	}
	r.strict, _ = s.ipam.Value.config["strictAffinity"].(bool)
	if auto, set := s.ipam.Value.config["autoAllocateBlocks"].(bool); set {
		r.closed = !auto
	}
	for _, name := range slices.Sorted(maps.Keys(s.pools.Value)) {
		if cidr, ok := poolFor(s.Node, s.pools.Value[name]); ok && cidr.Addr().Is6() == v6 {
			r.pools = append(r.pools, name+" ("+cidr.String()+")")
			r.prefixes = append(r.prefixes, cidr)
			r.unclaimed += s.ipam.Value.unclaimed(s.blocks.Value.specs, cidr, s.pools.Value[name])
			continue
		}
		selector, _ := s.pools.Value[name]["nodeSelector"].(string)
		if disabled, _ := s.pools.Value[name]["disabled"].(bool); disabled {
			r.others = append(r.others, name+": disabled")
		} else if cidr, ok := cidrOf(s.pools.Value[name]); ok && cidr.Addr().Is6() == v6 && selector != "" {
			r.others = append(r.others, name+": nodeSelector "+probe.Quoted(selector))
		}
	}
	for _, spec := range s.blocks.Value.specs {
		r.add(s, spec, v6)
	}
	return r, true
}

// aboutIPv6 reports whether a message is about an IPv6 address. IPAM names no family where no pool serves the node ("no
// configured Calico pools"), or where none is enabled at all ("cannot find a qualified ippool", determinePools in
// libcalico-go): it is the one without a pool, where the other has one.
func aboutIPv6(s *Snapshot, message string) bool {
	if !strings.Contains(message, "no configured Calico pools") &&
		!strings.Contains(message, "cannot find a qualified ippool") {
		return strings.Contains(message, "IPv6 address")
	}
	four, known := roomFor(s, false)
	six, _ := roomFor(s, true)
	return known && len(four.pools) > 0 && len(six.pools) == 0
}

// add counts one block.
func (r *room) add(s *Snapshot, spec map[string]any, v6 bool) {
	cidr, ok := cidrOf(spec)
	if !ok || cidr.Addr().Is6() != v6 {
		return
	}
	affinity, _ := spec["affinity"].(string)
	own := affinity == "host:"+s.Node.Name
	if !slices.ContainsFunc(r.prefixes, func(p netip.Prefix) bool { return p.Contains(cidr.Addr()) }) {
		return
	}
	if own {
		r.blocks++
	}
	free, reserved := s.ipam.Value.free(cidr, spec)
	r.reserved += reserved
	if own {
		r.here += free
	} else {
		r.elsewhere += free
	}
	for _, a := range givenIn(spec) {
		switch {
		case gone(s, a):
			r.leaked++
		case own && a.node != s.Node.Name:
			r.borrowed++
		}
	}
}

// gone tells whether the pod of an address is surely no more: its node is not there, or is this
// one and has no such pod.
func gone(s *Snapshot, a loan) bool {
	if a.node == s.Node.Name {
		return s.placed.pods.Err == nil && !slices.ContainsFunc(s.placed.pods.Value,
			func(p corev1.Pod) bool { return p.Namespace == a.namespace && p.Name == a.name })
	}
	return !slices.ContainsFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == a.node })
}

// poolFor tells whether pods of a node may get addresses of a pool, wherever they are, and its range.
func poolFor(n *corev1.Node, spec map[string]any) (netip.Prefix, bool) {
	cidr, ok := cidrOf(spec)
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
	return cidr, err != nil || selects(n.Labels) // one that cannot be read may select it
}

func cidrOf(spec map[string]any) (netip.Prefix, bool) {
	text, _ := spec["cidr"].(string)
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err == nil
}

// manyBlocks is where counting a pool's blocks ends; IPv6 pools have millions.
const manyBlocks = 1 << 20

// unclaimed is how many blocks of a pool are nobody's.
func (i *ipam) unclaimed(blocks specs, pool netip.Prefix, spec map[string]any) int {
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
		if cidr, ok := cidrOf(b); ok && pool.Contains(cidr.Addr()) {
			there[cidr] = true
		}
	}
	left := 1<<bits - len(there)
	for _, r := range i.rsvd { // what is reserved as a whole is skipped
		if pool.Contains(r.Addr()) && r.Bits() <= int(size) {
			left -= 1 << (int(size) - max(r.Bits(), pool.Bits()))
		}
	}
	return max(0, left)
}

// free counts the addresses of a block that nobody has, and of these those that are reserved.
func (i *ipam) free(cidr netip.Prefix, spec map[string]any) (free, reserved int) {
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

// after is the address n places further on.
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

// givenIn lists the addresses of a block that pods were given: allocations has an index into
// attributes for each address given away.
func givenIn(spec map[string]any) []loan {
	cidr, ok := cidrOf(spec)
	if !ok {
		return nil
	}
	allocations, _ := spec["allocations"].([]any)
	attributes, _ := spec["attributes"].([]any)
	var out []loan
	for at, a := range allocations {
		i, given := a.(int64)
		if !given || i < 0 || i >= int64(len(attributes)) {
			continue
		}
		attribute, _ := attributes[i].(map[string]any)
		of, _ := attribute["secondary"].(map[string]any)
		l := loan{addr: after(cidr.Addr(), at)}
		l.node, _ = of["node"].(string)
		l.namespace, _ = of["namespace"].(string)
		l.name, _ = of["pod"].(string)
		if l.node != "" && l.name != "" {
			out = append(out, l)
		}
	}
	return out
}

// loansIn finds the borrowed addresses of one IPAM block.
func loansIn(spec map[string]any) []loan {
	affinity, _ := spec["affinity"].(string)
	owner, ok := strings.CutPrefix(affinity, "host:")
	if !ok {
		return nil
	}
	return slices.DeleteFunc(givenIn(spec), func(l loan) bool { return l.node == owner })
}

// text is the room in words.
func (r room) text(node string) string {
	switch r.short() {
	case facts.ShortNoPool:
		says := "no enabled pool is for this node"
		if len(r.others) > 0 {
			says += " (" + few(r.others) + ")"
		}
		return says
	case facts.ShortLimit:
		return fmt.Sprintf("the node has %d blocks, one may have %d, and they are full", r.blocks, r.limit)
	case facts.ShortStrict:
		return fmt.Sprintf("no block of %s has a free address, no block is left to claim, and the %d free ones in blocks of other nodes may not be borrowed (strictAffinity)", node, r.elsewhere)
	case facts.ShortNoBlocks:
		return fmt.Sprintf("no block of %s has a free address, and none is claimed any more (autoAllocateBlocks false)", node)
	case facts.ShortFull:
		return "no address is free in " + strings.Join(r.pools, ", ")
	}
	return fmt.Sprintf("by the API there is room: %d free in blocks of the node, %d blocks unclaimed, %d free in blocks of others",
		r.here, r.unclaimed, r.elsewhere)
}
