package do

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/socket"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// ownersLimit is the time limit for finding the processes that own sockets.
const ownersLimit = 5 * time.Second

// listedSocket reports whether the arguments select a socket.
func listedSocket(c *tools.ConnsArgs, s kernel.Socket) bool {
	switch {
	case c.With == "":
		return true
	case c.Addr.IsValid():
		return socketHas(s, c.Addr, !c.Connected)
	}
	return s.Near.Port() == c.Port || s.Far.Port() == c.Port
}

// socketHas reports whether a socket has the given address at either end.
func socketHas(s kernel.Socket, a netip.Addr, listens bool) bool {
	everywhere := listens && s.Near.Addr().IsUnspecified() && (s.Near.Addr().Is6() || a.Is4())
	return s.Near.Addr() == a || s.Far.Addr() == a || everywhere
}

// listConns lists TCP sockets.
func listConns(ctx context.Context, j *probe.Job, c *tools.ConnsArgs) probe.Result {
	var all []kernel.Socket
	n, of := 0, ""
	if c.With != "" {
		of = " with " + c.With
	}
	what, states := "listening socket", kernel.Listening
	if c.Connected {
		what, states = "connection", kernel.Connections
	}
	err := kernel.TCP(states, 0, 0, func(s kernel.Socket) {
		if listedSocket(c, s) {
			if n++; n <= maxRows {
				all = append(all, s)
			}
		}
	})
	switch {
	case err != nil:
		return unread(err)
	case n == 0:
		return probe.Found(probe.Fail, "no %s%s", what, of).With(probe.FactReason, "missing")
	}
	slices.SortFunc(all, func(a, b kernel.Socket) int {
		return cmp.Or(cmp.Compare(a.Near.Port(), b.Near.Port()), a.Near.Compare(b.Near), a.Far.Compare(b.Far))
	})
	limited, cancel := context.WithTimeout(ctx, ownersLimit)
	defer cancel()
	owner, whole := socket.Owners(limited, j.Host, all)
	t := newTable(j, "STATE", "HERE", "THERE", "PROCESS")
	for _, s := range all {
		far := s.Far.String()
		if !c.Connected {
			far = ""
		}
		process := owner[s.Inode]
		if process == "" && !whole {
			process = "?"
		}
		t.row(s.State, s.Near.String(), far, process)
	}
	t.end()
	if n > maxRows {
		j.Say("(%d more are not shown: specify a port or an address)", n-maxRows)
	}
	if !whole {
		j.Say("(? = not found within %v, the limit for searching the processes)", ownersLimit)
	} else if len(owner) == 0 {
		j.Say("(the processes are not visible with this access method)")
	}
	return probe.Found(probe.OK, "%d x %s%s", n, what, of)
}
