// Package gate lets clients in that have credentials, and keeps strangers from taking all the room: a listener that
// bounds its connections, and a handler that asks for a token, a certificate, or both.
//
//	keeper, err := gate.Open(access, log) // an error where everybody would be let in
//	server, bounded := keeper.Server(listener, keeper.Guard(handler, told), told)
//	err = server.Serve(bounded)
package gate

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// How many connections are open at once. Those whose client has shown credentials (known)
// are counted apart from those whose client has not (strangers), so that no number of
// strangers keeps a known client out; and of both kinds one address has half at most. Each
// connection takes a file number and, with TLS, some 40 KB.
const (
	maxOfKind      = 128
	maxFromAddress = maxOfKind / 2
)

// Gate is a listener that bounds its connections. It never lets a new one wait: where there
// are too many, the oldest stranger is closed for it, first of the address that has the most.
// So an address that opens one connection gets in whatever others do, and behind an address
// that many share (a proxy, NAT) the latest do.
type Gate struct {
	net.Listener
	closed func(from net.Addr) // is told of each that was closed for another one

	mu   sync.Mutex
	open map[*entered]struct{}
	last uint64 // number given
}

// entered is a connection that is counted.
type entered struct {
	net.Conn
	gate   *Gate
	from   netip.Addr
	number uint64 // lower = longer without a request; of a stranger, older
	known  bool
	busy   bool // a known client's request is being answered
}

func newGate(l net.Listener, closed func(from net.Addr)) *Gate {
	return &Gate{Listener: l, closed: closed, open: map[*entered]struct{}{}}
}

// network is what counts as one address: of IPv6 a /64, of which one machine has all.
func network(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if !a.Is6() {
		return a
	}
	return netip.PrefixFrom(a.WithZone(""), 64).Masked().Addr()
}

// Accept takes the next connection, as a stranger's.
func (g *Gate) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	at, _ := netip.ParseAddrPort(c.RemoteAddr().String()) // what has no address shares none
	e := &entered{Conn: c, gate: g, from: network(at.Addr())}
	g.mu.Lock()
	drop, _ := g.surplus(e) // strangers can always be closed
	e.number = g.next()
	g.open[e] = struct{}{}
	g.mu.Unlock()
	g.drop(drop)
	return e, nil
}

// Close ends the connection, which is not counted any more.
func (e *entered) Close() error {
	e.gate.mu.Lock()
	delete(e.gate.open, e)
	e.gate.mu.Unlock()
	return e.Conn.Close()
}

// admit counts the connection as that of a known client. It tells whether there is room: where
// the known clients have too many, one that is idle is closed, and none that is busy.
func (e *entered) admit() bool {
	g := e.gate
	g.mu.Lock()
	if e.known {
		g.mu.Unlock()
		return true
	}
	e.known, e.busy = true, true
	drop, room := g.surplus(e)
	e.known, e.busy = room, room
	g.mu.Unlock()
	g.drop(drop)
	return room
}

// surplus is the connection to close so that there is room for e among those of its kind;
// false = there is no room, and none that may be closed. mu is held.
func (g *Gate) surplus(e *entered) (drop *entered, room bool) {
	all, from := 0, map[netip.Addr]int{}
	for c := range g.open {
		if c != e && c.known == e.known {
			all++
			from[c.from]++
		}
	}
	own := from[e.from] >= maxFromAddress
	if all < maxOfKind && !own {
		return nil, true
	}
	for c := range g.open {
		if c == e || c.known != e.known || c.busy || own && c.from != e.from {
			continue
		}
		if drop == nil || from[c.from] > from[drop.from] || from[c.from] == from[drop.from] && c.number < drop.number {
			drop = c
		}
	}
	return drop, drop != nil
}

func (g *Gate) drop(c *entered) {
	if c != nil {
		_ = c.Close() // it is given up in any case
		g.closed(c.RemoteAddr())
	}
}

// next is a number higher than all before. mu is held.
func (g *Gate) next() uint64 { g.last++; return g.last }

// state follows which connections are idle; it is a server's ConnState.
func (g *Gate) state(c net.Conn, is http.ConnState) {
	e := enteredOf(c)
	if e == nil || is != http.StateActive && is != http.StateIdle {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	e.busy = e.known && is == http.StateActive
	if e.known {
		e.number = g.next()
	}
}

// enteredOf is the connection that a server was given, below its TLS.
func enteredOf(c net.Conn) *entered {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	e, _ := c.(*entered)
	return e
}

// connKey has the *entered of a request in its context, which is where net/http lets it be kept.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, enteredOf(c))
}

// admitted counts the connection of a request as a known client's; false = there is no room.
func admitted(r *http.Request) bool {
	e, _ := r.Context().Value(connKey{}).(*entered)
	return e == nil || e.admit()
}
