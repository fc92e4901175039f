package do

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// maxRows is the maximum number of rows that links and neigh print.
const maxRows = 5_000

// listLinks lists the interfaces whose names begin with the given prefix.
func listLinks(_ context.Context, j *probe.Job, begins string) probe.Result {
	all, err := kernel.Links()
	if err != nil {
		return unread(err)
	}
	slices.SortFunc(all, func(a, b kernel.Link) int { return strings.Compare(a.Name, b.Name) })
	t := newTable(j, "NAME", "KIND", "STATE", "MTU", "MAC", "ADDRESSES", "IN", "OUT", "ERRORS", "DROPS", "MASTER")
	n := 0
	for _, l := range all {
		if !strings.HasPrefix(l.Name, begins) {
			continue
		}
		if n++; n > maxRows {
			continue
		}
		addrs := make([]string, len(l.Addrs))
		for i, a := range l.Addrs {
			addrs[i] = a.String()
		}
		t.row(l.Name, l.Kind, stateOf(l), strconv.Itoa(l.MTU), l.MAC, strings.Join(addrs, ","), bytesOf(l.BytesIn),
			bytesOf(l.BytesOut), both(l.ErrorsIn, l.ErrorsOut), both(l.DropsIn, l.DropsOut), l.Master)
	}
	if n == 0 {
		return probe.Found(probe.Fail, "no interface %s", begins).With(probe.FactReason, "missing")
	}
	t.end()
	if n > maxRows {
		j.Say("(%d more are not shown: specify a prefix)", n-maxRows)
	}
	return probe.Found(probe.OK, "%s", several(n, "interface"))
}

// stateOf returns an interface's state in one word.
func stateOf(l kernel.Link) string {
	switch {
	case !l.Up:
		return "down"
	case !l.Carrier:
		return "no-carrier"
	case l.State == "unknown": // loopback and tunnel interfaces do not report it
		return "up"
	}
	return l.State
}

// both formats a counter for both directions.
func both(in, out uint64) string { return fmt.Sprintf("%d/%d", in, out) }

// bytesOf formats a number of bytes for a narrow column.
func bytesOf(n uint64) string {
	units := []string{"B", "K", "M", "G", "T", "P", "E"}
	f := float64(n)
	i := 0
	for f >= 1024 && i+1 < len(units) {
		f, i = f/1024, i+1
	}
	if i == 0 || f >= 100 {
		return fmt.Sprintf("%.0f%s", f, units[i])
	}
	return fmt.Sprintf("%.1f%s", f, units[i])
}

// listedNeighbour reports whether the arguments select a neighbour. Multicast and loopback entries (noarp) are listed
// only by address or state.
func listedNeighbour(a *tools.NeighArgs, n kernel.Neighbour) bool {
	switch {
	case a.Addr.IsValid():
		return n.Addr == a.Addr
	case a.State != "":
		return n.State == a.State
	}
	return n.State != "noarp" && (a.Device == "" || n.Device == a.Device)
}

// listNeighbours lists the kernel's ARP and NDP table.
func listNeighbours(_ context.Context, j *probe.Job, a *tools.NeighArgs) probe.Result {
	var all []kernel.Neighbour
	for _, family := range []int{4, 6} {
		table, err := kernel.Neighbours(family)
		if err != nil {
			return unread(err)
		}
		all = append(all, table...)
	}
	slices.SortFunc(all, func(a, b kernel.Neighbour) int { return a.Addr.Compare(b.Addr) })
	t := newTable(j, "ADDRESS", "DEVICE", "MAC", "STATE", "ROUTER")
	n, bad := 0, 0
	for _, e := range all {
		if !listedNeighbour(a, e) {
			continue
		}
		if e.State == "failed" || e.State == "incomplete" {
			bad++
		}
		if n++; n > maxRows {
			continue
		}
		t.row(e.Addr.String(), e.Device, e.MAC, e.State, map[bool]string{true: "router"}[e.Router])
	}
	if n == 0 {
		return probe.Found(probe.Fail, "no such neighbour").With(probe.FactReason, "missing")
	}
	t.end()
	if n > maxRows {
		j.Say("(%d more are not shown: specify a device or a state)", n-maxRows)
	}
	if bad > 0 {
		return probe.Found(probe.OK, "%s, of which %d do not answer", several(n, "neighbour"), bad)
	}
	return probe.Found(probe.OK, "%s", several(n, "neighbour"))
}
