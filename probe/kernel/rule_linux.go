package kernel

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// Rules lists the rules with which the kernel selects a routing table for a packet, in order.
func Rules(family int) ([]Rule, error) {
	list, err := Undisturbed(func() ([]netlink.Rule, error) { return netlink.RuleList(addressFamily(family)) })
	if err != nil {
		return nil, fmt.Errorf("listing routing rules: %w", err)
	}
	var out []Rule
	for _, r := range list {
		one := Rule{Priority: max(r.Priority, 0), Table: r.Table, Mark: r.Mark, In: r.IifName, Out: r.OifName, Not: r.Invert,
			Partly: r.SuppressPrefixlen >= 0 || r.SuppressIfgroup >= 0, Protocol: r.IPProto,
			Narrow: r.Sport != nil || r.UIDRange != nil || r.Tos != 0 || r.TunID != 0}
		if r.Dport != nil {
			one.Ports = [2]int{int(r.Dport.Start), int(r.Dport.End)}
		}
		one.Rejects = r.Table == 0 && r.Goto <= 0
		if r.Src != nil {
			one.From = prefixOf(r.Src, family == 4)
		}
		if r.Dst != nil {
			one.To = prefixOf(r.Dst, family == 4)
		}
		out = append(out, one)
	}
	return out, nil
}
