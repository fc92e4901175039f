package tools

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
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

// link is an interface as it is shown.
type link struct {
	name, kind, state, mac string
	mtu                    int
	addrs                  []netip.Prefix
	in, out                uint64 // bytes
	errIn, errOut          uint64
	dropIn, dropOut        uint64
	peer                   string // what it is fixed to: a master, or a parent
}

// most bounds what links and neigh print.
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
	all, err := links()
	if err != nil {
		return unread(err)
	}
	t := newTable(j, "NAME", "KIND", "STATE", "MTU", "MAC", "ADDRESSES", "IN", "OUT", "ERRORS", "DROPS", "MASTER")
	n := 0
	for _, l := range all {
		if !strings.HasPrefix(l.name, begins) {
			continue
		}
		if n++; n > mostRows {
			continue
		}
		addrs := make([]string, len(l.addrs))
		for i, a := range l.addrs {
			addrs[i] = a.String()
		}
		t.row(l.name, l.kind, l.state, strconv.Itoa(l.mtu), l.mac, strings.Join(addrs, ","), bytesOf(l.in),
			bytesOf(l.out), both(l.errIn, l.errOut), both(l.dropIn, l.dropOut), l.peer)
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

// neighbour is one of the neighbour table.
type neighbour struct {
	addr               netip.Addr
	device, mac, state string
	router             bool
}

// neighStates are those the kernel tells (linux/neighbour.h).
var neighStates = map[int]string{0x01: "incomplete", 0x02: "reachable", 0x04: "stale", 0x08: "delay", 0x10: "probe",
	0x20: "failed", 0x40: "noarp", 0x80: "permanent"}

func parseNeigh(args []string) (probe.ToolFunc, error) {
	fits := func(neighbour) bool { return true }
	known := func(word string) bool {
		for _, s := range neighStates {
			if s == word {
				return true
			}
		}
		return false
	}
	switch {
	case len(args) == 0:
		fits = func(n neighbour) bool { return n.state != "noarp" } // multicast and loopback
	case len(args) == 2 && args[0] == "dev":
		fits = func(n neighbour) bool { return n.device == args[1] && n.state != "noarp" }
	case len(args) == 1 && known(args[0]):
		fits = func(n neighbour) bool { return n.state == args[0] }
	case len(args) == 1:
		a, err := netip.ParseAddr(args[0])
		if err != nil {
			return nil, fmt.Errorf("neigh takes an address, dev NAME or a state (reachable, stale, failed, ...), not %q", args[0])
		}
		fits = func(n neighbour) bool { return n.addr == a.Unmap() }
	default:
		return nil, errors.New("neigh takes an address, dev NAME or a state: neigh failed")
	}
	return func(_ context.Context, j *probe.Job) probe.Result { return listNeighbours(j, fits) }, nil
}

func listNeighbours(j *probe.Job, fits func(neighbour) bool) probe.Result {
	all, err := neighbours()
	if err != nil {
		return unread(err)
	}
	t := newTable(j, "ADDRESS", "DEVICE", "MAC", "STATE", "ROUTER")
	n, bad := 0, 0
	for _, e := range all {
		if !fits(e) {
			continue
		}
		if e.state == "failed" || e.state == "incomplete" {
			bad++
		}
		if n++; n > mostRows {
			continue
		}
		t.row(e.addr.String(), e.device, e.mac, e.state, map[bool]string{true: "router"}[e.router])
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
