package tools

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// Links lists the network interfaces.
var Links = &probe.Tool{
	Name: "links", Usage: "[NAME]", Short: "interfaces: state, MTU, addresses, errors",
	Doc: `Lists the network interfaces with what the kernel counts of them since it made them:
bytes in and out, errors and drops (in/out). With a NAME only those whose name
begins with it. State is what the driver says; "no-carrier" = the other end is
missing or down.

  links
  links cali`,
	Parse: parseLinks,
}

// Neigh lists the neighbours.
var Neigh = &probe.Tool{
	Name: "neigh", Usage: "[ADDRESS | dev NAME | STATE]", Short: "neighbour table (ARP and NDP): who has which MAC",
	Doc: `Lists the kernel's ARP and NDP table: address, device, MAC and state. reachable = confirmed
lately; stale = not lately, asked again when needed; failed or incomplete = asked, and no
answer came; permanent = written by hand or by Felix.

  neigh
  neigh failed
  neigh dev vxlan.calico`,
	Parse: parseNeigh,
}

// mostRows bounds what links and neigh print.
const mostRows = 5_000

func parseLinks(args []string) (probe.ToolFunc, error) {
	if len(args) > 1 {
		return nil, errors.New("links takes the beginning of one name: links cali")
	}
	begins := strings.Join(args, "")
	if strings.HasPrefix(begins, "-") {
		return nil, errors.New("links has no options; 'help links' says what it takes")
	}
	return func(_ context.Context, j *probe.Job) probe.Result { return listLinks(j, begins) }, nil
}

func listLinks(j *probe.Job, begins string) probe.Result {
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
		if n++; n > mostRows {
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
		return probe.Found(probe.Fail, "there is no interface %s", begins).With(probe.FactReason, "missing")
	}
	t.end()
	if n > mostRows {
		j.Say("(%d more are not shown: name the beginning)", n-mostRows)
	}
	return probe.Found(probe.OK, "%s", several(n, "interface"))
}

// stateOf is the state of an interface in a word.
func stateOf(l kernel.Link) string {
	switch {
	case !l.Up:
		return "down"
	case !l.Carrier:
		return "no-carrier"
	case l.State == "unknown": // the loopback, tunnels: they do not tell
		return "up"
	}
	return l.State
}

// both is a counter of each direction.
func both(in, out uint64) string { return fmt.Sprintf("%d/%d", in, out) }

// bytesOf is a number of bytes as short as a column should be.
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

func parseNeigh(args []string) (probe.ToolFunc, error) {
	fits := func(kernel.Neighbour) bool { return true }
	switch {
	case len(args) == 0:
		fits = func(n kernel.Neighbour) bool { return n.State != "noarp" } // multicast and loopback
	case len(args) == 2 && args[0] == "dev":
		fits = func(n kernel.Neighbour) bool { return n.Device == args[1] && n.State != "noarp" }
	case len(args) == 1 && kernel.IsNeighbourState(args[0]):
		fits = func(n kernel.Neighbour) bool { return n.State == args[0] }
	case len(args) == 1:
		a, err := netip.ParseAddr(args[0])
		if err != nil {
			return nil, fmt.Errorf("neigh takes an address, dev NAME or a state (reachable, stale, failed, ...), not %q", args[0])
		}
		fits = func(n kernel.Neighbour) bool { return n.Addr == a.Unmap() }
	default:
		return nil, errors.New("neigh takes an address, dev NAME or a state: neigh failed")
	}
	return func(_ context.Context, j *probe.Job) probe.Result { return listNeighbours(j, fits) }, nil
}

func listNeighbours(j *probe.Job, fits func(kernel.Neighbour) bool) probe.Result {
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
		if !fits(e) {
			continue
		}
		if e.State == "failed" || e.State == "incomplete" {
			bad++
		}
		if n++; n > mostRows {
			continue
		}
		t.row(e.Addr.String(), e.Device, e.MAC, e.State, map[bool]string{true: "router"}[e.Router])
	}
	if n == 0 {
		return probe.Found(probe.Fail, "there is no such neighbour").With(probe.FactReason, "missing")
	}
	t.end()
	if n > mostRows {
		j.Say("(%d more are not shown: name a device or a state)", n-mostRows)
	}
	if bad > 0 {
		return probe.Found(probe.OK, "%s, of which %d do not answer", several(n, "neighbour"), bad)
	}
	return probe.Found(probe.OK, "%s", several(n, "neighbour"))
}
