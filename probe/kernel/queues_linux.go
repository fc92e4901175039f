package kernel

import (
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
)

// Queues lists the queueing disciplines and programs on the wanted interfaces.
func Queues(links []Link) ([]Queue, error) {
	var out []Queue
	for _, l := range links {
		at, err := netlink.LinkByName(l.Name)
		if err != nil {
			continue // deleted in the meantime
		}
		one := Queue{Device: l.Name, XDP: at.Attrs().Xdp != nil && at.Attrs().Xdp.Attached}
		kinds, err := Undisturbed(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(at) })
		if err != nil {
			return nil, fmt.Errorf("listing queues of %s: %w", l.Name, err)
		}
		parents := map[uint32]string{netlink.HANDLE_MIN_INGRESS: "ingress", netlink.HANDLE_MIN_EGRESS: "egress",
			netlink.MakeHandle(0xffff, 0): "ingress"}
		for _, q := range kinds {
			if !slices.Contains(one.Kinds, q.Type()) {
				one.Kinds = append(one.Kinds, q.Type())
			}
			if handle := q.Attrs().Handle; q.Attrs().Parent == netlink.HANDLE_ROOT && handle != 0 {
				parents[handle] = "root"
			}
		}
		for parent, name := range parents {
			filters, err := netlink.FilterList(at, parent)
			if err != nil {
				continue // it does not have this hook
			}
			for _, f := range filters {
				text := name + " " + f.Type()
				if bpf, ok := f.(*netlink.BpfFilter); ok {
					text += " " + bpf.Name
				}
				if !slices.Contains(one.Filters, text) {
					one.Filters = append(one.Filters, text)
				}
			}
		}
		slices.Sort(one.Kinds)
		slices.Sort(one.Filters)
		out = append(out, one)
	}
	return out, nil
}
