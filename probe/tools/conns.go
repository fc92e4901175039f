package tools

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// connsTool lists TCP sockets.
var connsTool = &probe.Tool{
	Name: "conns", Usage: "[-e] [PORT | ADDRESS]", Short: "who listens on TCP, and who is connected",
	Doc: `Lists the TCP sockets that listen in the node's own network, and the process of each. Those
of pods are not among them, nor is UDP.

  -e        connections instead: established, opening, closing
  PORT      of either end
  ADDRESS   of either end; a socket that listens everywhere has every address, one of
            0.0.0.0 those of IPv4

  conns
  conns 179
  conns -e 10.0.0.12

Fails when there is none.`,
	Parse: parseConns,
}

// ownersLimit bounds looking for the processes of sockets among all there are.
const ownersLimit = 5 * time.Second

func parseConns(args []string) (probe.ToolFunc, error) {
	var connected bool
	f := options("conns")
	f.BoolVar(&connected, "e", false, "")
	rest, err := words(f, args)
	if err != nil {
		return nil, err
	}
	wanted, of := func(kernel.Socket) bool { return true }, ""
	if len(rest) > 0 {
		port, bad := strconv.ParseUint(rest[0], 10, 16)
		a, err := netip.ParseAddr(rest[0])
		if len(rest) > 1 || bad != nil && err != nil {
			return nil, fmt.Errorf("conns takes one port or address, not %q", strings.Join(rest, " "))
		}
		of = " with " + rest[0]
		wanted = func(s kernel.Socket) bool {
			if bad == nil {
				return s.Near.Port() == uint16(port) || s.Far.Port() == uint16(port)
			}
			return socketHas(s, a.Unmap(), !connected)
		}
	}
	return func(ctx context.Context, j *probe.Job) probe.Result { return listConns(ctx, j, connected, wanted, of) }, nil
}

// socketHas tells whether an address is one of a socket's.
func socketHas(s kernel.Socket, a netip.Addr, listens bool) bool {
	everywhere := listens && s.Near.Addr().IsUnspecified() && (s.Near.Addr().Is6() || a.Is4())
	return s.Near.Addr() == a || s.Far.Addr() == a || everywhere
}

func listConns(ctx context.Context, j *probe.Job, connected bool, wanted func(kernel.Socket) bool,
	of string) probe.Result {
	var all []kernel.Socket
	n := 0
	what, states := "socket that listens", kernel.Listening
	if connected {
		what, states = "connection", kernel.Connections
	}
	err := kernel.TCP(states, 0, 0, func(s kernel.Socket) {
		if wanted(s) {
			if n++; n <= mostRows {
				all = append(all, s)
			}
		}
	})
	switch {
	case err != nil:
		return unread(err)
	case n == 0:
		return probe.Found(probe.Fail, "there is no %s%s", what, of).With(probe.FactReason, "missing")
	}
	slices.SortFunc(all, func(a, b kernel.Socket) int {
		return cmp.Or(cmp.Compare(a.Near.Port(), b.Near.Port()), a.Near.Compare(b.Near), a.Far.Compare(b.Far))
	})
	limited, cancel := context.WithTimeout(ctx, ownersLimit)
	defer cancel()
	owner, whole := kernel.Owners(limited, j.Host, all)
	t := newTable(j, "STATE", "HERE", "THERE", "PROCESS")
	for _, s := range all {
		far := s.Far.String()
		if !connected {
			far = ""
		}
		process := owner[s.Inode]
		if process == "" && !whole {
			process = "?"
		}
		t.row(s.State, s.Near.String(), far, process)
	}
	t.end()
	if n > mostRows {
		j.Say("(%d more are not shown: name a port or an address)", n-mostRows)
	}
	if !whole {
		j.Say("(? = not found before the time for looking through the processes, %v, was over)", ownersLimit)
	} else if len(owner) == 0 {
		j.Say("(the processes are not visible by this way)")
	}
	return probe.Found(probe.OK, "%d x %s%s", n, what, of)
}
