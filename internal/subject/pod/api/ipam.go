package api

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// defaultBlocks is IPAM's default limit of blocks for one node (libcalico-go, lib/ipam/ipam.go, since v3.14).
const defaultBlocks = 20

// room is the space that IPAM has for one more pod on the node, in one address family.
type room struct {
	pools     []string // for the node, as "NAME (CIDR)"
	prefixes  []netip.Prefix
	others    []string // pools that do not serve the node's pods, and why
	blocks    int      // blocks of the node, in any pool
	limit     int      // maximum number of blocks of a node
	here      int      // free addresses in blocks of the node
	elsewhere int      // free addresses in blocks of other nodes
	unclaimed int      // blocks without an owner
	reserved  int      // free except for an IPReservation
	leaked    int      // still assigned to deleted pods
	borrowed  int      // addresses of the node's blocks in use by pods on other nodes
	strict    bool     // strictAffinity: the node may not borrow from blocks of other nodes
	closed    bool     // autoAllocateBlocks is false: nodes claim no new blocks
}

// short returns why no address is available, or "".
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

// roomFor counts the space for one more pod. It returns false if the space is unknown: another IPAM, or incomplete
// data.
func roomFor(s *cluster.Snapshot, v6 bool) (room, bool) {
	err := cmp.Or(s.Pools.Err, s.Blocks.Err, s.IPAM.Err)
	if err != nil || s.Blocks.Value.Partly || len(s.Blocks.Value.Specs) == 0 {
		return room{}, false
	}
	r := room{limit: defaultBlocks}
	if n, ok := s.IPAM.Value.Config["maxBlocksPerHost"].(int64); ok && n > 0 {
		r.limit = int(n)
	}
	r.strict, _ = s.IPAM.Value.Config["strictAffinity"].(bool)
	if auto, set := s.IPAM.Value.Config["autoAllocateBlocks"].(bool); set {
		r.closed = !auto
	}
	for _, name := range slices.Sorted(maps.Keys(s.Pools.Value)) {
		if cidr, ok := cluster.PoolFor(s.Node, s.Pools.Value[name]); ok && cidr.Addr().Is6() == v6 {
			r.pools = append(r.pools, name+" ("+cidr.String()+")")
			r.prefixes = append(r.prefixes, cidr)
			r.unclaimed += s.IPAM.Value.Unclaimed(s.Blocks.Value.Specs, cidr, s.Pools.Value[name])
			continue
		}
		selector, _ := s.Pools.Value[name]["nodeSelector"].(string)
		if disabled, _ := s.Pools.Value[name]["disabled"].(bool); disabled {
			r.others = append(r.others, name+": disabled")
		} else if cidr, ok := cluster.CIDROf(s.Pools.Value[name]); ok && cidr.Addr().Is6() == v6 && selector != "" {
			r.others = append(r.others, name+": nodeSelector "+probe.Quoted(selector))
		}
	}
	for _, spec := range s.Blocks.Value.Specs {
		r.add(s, spec, v6)
	}
	return r, true
}

// aboutIPv6 reports whether a message is about an IPv6 address. IPAM names no family if no pool serves the node ("no
// configured Calico pools"), or if none is enabled at all ("cannot find a qualified ippool", determinePools in
// libcalico-go). The family is then the one without a pool, if the other family has a pool.
func aboutIPv6(s *cluster.Snapshot, message string) bool {
	if !strings.Contains(message, "no configured Calico pools") &&
		!strings.Contains(message, "cannot find a qualified ippool") {
		return strings.Contains(message, "IPv6 address")
	}
	four, known := roomFor(s, false)
	six, _ := roomFor(s, true)
	return known && len(four.pools) > 0 && len(six.pools) == 0
}

// add counts one block.
func (r *room) add(s *cluster.Snapshot, spec map[string]any, v6 bool) {
	cidr, ok := cluster.CIDROf(spec)
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
	free, reserved := s.IPAM.Value.Free(cidr, spec)
	r.reserved += reserved
	if own {
		r.here += free
	} else {
		r.elsewhere += free
	}
	for _, a := range cluster.GivenIn(spec) {
		switch {
		case isGone(s, a):
			r.leaked++
		case own && a.Node != s.Node.Name:
			r.borrowed++
		}
	}
}

// isGone reports whether the pod of an address certainly no longer exists: its node does not exist, or is this node and
// has no such pod.
func isGone(s *cluster.Snapshot, a cluster.Loan) bool {
	if a.Node == s.Node.Name {
		return s.Placed.Pods.Err == nil && !slices.ContainsFunc(s.Placed.Pods.Value,
			func(p corev1.Pod) bool { return p.Namespace == a.Namespace && p.Name == a.Name })
	}
	return !slices.ContainsFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == a.Node })
}

// text describes the space, or why there is no space.
func (r room) text(node string) string {
	switch r.short() {
	case facts.ShortNoPool:
		text := "no enabled pool serves this node"
		if len(r.others) > 0 {
			text += " (" + cluster.Few(r.others) + ")"
		}
		return text
	case facts.ShortLimit:
		return fmt.Sprintf("the node's %d blocks are full, and a node may have at most %d", r.blocks, r.limit)
	case facts.ShortStrict:
		return fmt.Sprintf("%s has no free address and no block to claim, and strictAffinity forbids borrowing the %d free addresses in other nodes' blocks", node, r.elsewhere)
	case facts.ShortNoBlocks:
		return fmt.Sprintf("%s has no free address, and IPAM claims no new blocks (autoAllocateBlocks is false)", node)
	case facts.ShortFull:
		return "no free address in " + strings.Join(r.pools, ", ")
	}
	return fmt.Sprintf("the API shows room: %d free addresses in this node's blocks, %d unclaimed blocks, %d free in other nodes' blocks",
		r.here, r.unclaimed, r.elsewhere)
}
