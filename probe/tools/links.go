package tools

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// Links lists the network interfaces.
var Links = &probe.Tool{
	Name: "links", Usage: "[NAME]", Short: "interfaces: state, MTU, addresses, errors",
	Doc: `Lists the network interfaces with the kernel's counters since each was created: bytes in and
out, errors and drops (in/out). With a NAME, only those that begin with it. State is what
the driver reports; "no-carrier" = the other end is missing or down.

  links
  links cali`,
	Check: check(ParseLinks),
}

// Neigh lists the neighbours.
var Neigh = &probe.Tool{
	Name: "neigh", Usage: "[ADDRESS | dev NAME | STATE]", Short: "neighbour table (ARP and NDP): who has which MAC",
	Doc: `Lists the kernel's ARP and NDP table: address, device, MAC and state. reachable = confirmed
recently; stale = not confirmed recently, checked when next used; failed or incomplete = no
answer to a request; permanent = added by hand or by Felix.

  neigh
  neigh failed
  neigh dev vxlan.calico`,
	Check: check(ParseNeigh),
}

// ParseLinks parses the argument of links. The argument is the beginning of interface names, "" = all.
func ParseLinks(args []string) (begins string, err error) {
	if len(args) > 1 {
		return "", errors.New("links takes the beginning of one name: links cali")
	}
	begins = strings.Join(args, "")
	if strings.HasPrefix(begins, "-") {
		return "", errors.New("links has no options: 'help links' lists its argument")
	}
	return begins, nil
}

// NeighArgs holds the arguments of neigh. At most one of them is set.
type NeighArgs struct {
	Addr          netip.Addr
	Device, State string
}

// states lists the states of a neighbour in the kernel's table.
var states = strings.Fields("incomplete reachable stale delay probe failed noarp permanent")

// ParseNeigh parses the arguments of neigh.
func ParseNeigh(args []string) (*NeighArgs, error) {
	n := &NeighArgs{}
	var err error
	switch {
	case len(args) == 0:
	case len(args) == 2 && args[0] == "dev":
		n.Device = args[1]
	case len(args) == 1 && slices.Contains(states, args[0]):
		n.State = args[0]
	case len(args) == 1:
		if n.Addr, err = netip.ParseAddr(args[0]); err != nil {
			return n, fmt.Errorf("neigh takes an address, dev NAME or a state (reachable, stale, failed, ...), not %q", args[0])
		}
		n.Addr = n.Addr.Unmap()
	default:
		return n, errors.New("neigh takes an address, dev NAME or a state: neigh failed")
	}
	return n, nil
}
