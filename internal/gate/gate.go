// Package gate admits clients with credentials, and prevents strangers from exhausting the server. A listener limits
// the number of connections, and a handler requires a token, a client certificate, or both. Open is its entry point.
// The caller's handler does the work: this package only rejects.
//
//	keeper, err := gate.Open(access, log) // an error if every client would be admitted
//	server, bounded := keeper.Server(listener, keeper.Guard(handler, log), log)
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

// Limits for open connections. Clients with credentials (known) and other clients (strangers) have separate limits, so
// strangers cannot block known clients. One address gets at most half of each limit. Each connection needs a file
// descriptor and, with TLS, some 40 KB.
const (
	maxOfKind      = 128
	maxFromAddress = maxOfKind / 2
)

// Gate is a listener that limits the number of its connections. A new connection never waits. If there are too many,
// Gate closes the oldest stranger's connection from the address with the most connections. So an address with only one
// connection is always admitted. If many clients share an address, as behind a proxy or NAT, the latest are admitted.
type Gate struct {
	net.Listener
	closed func(from net.Addr) // called for each connection that is closed for a newer one

	mu   sync.Mutex
	open map[*entered]struct{}
	last uint64 // last number assigned
}

// entered is a counted connection.
type entered struct {
	net.Conn
	gate   *Gate
	from   netip.Addr
	number uint64 // a lower number is longer without a request; for a stranger, older
	known  bool
	busy   bool // a known client's request is in progress
}

func newGate(l net.Listener, closed func(from net.Addr)) *Gate {
	return &Gate{Listener: l, closed: closed, open: map[*entered]struct{}{}}
}

// network returns the range that counts as one address. For IPv6 this is a /64, because one machine may own all of it.
func network(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if !a.Is6() {
		return a
	}
	return netip.PrefixFrom(a.WithZone(""), 64).Masked().Addr()
}

// Accept accepts the next connection. The connection counts as a stranger's.
func (g *Gate) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	at, _ := netip.ParseAddrPort(c.RemoteAddr().String()) // connections without an address share the zero address
	e := &entered{Conn: c, gate: g, from: network(at.Addr())}
	g.mu.Lock()
	drop, _ := g.surplus(e) // a stranger can always be closed
	e.number = g.next()
	g.open[e] = struct{}{}
	g.mu.Unlock()
	g.drop(drop)
	return e, nil
}

// Close closes the connection and stops counting it.
func (e *entered) Close() error {
	e.gate.mu.Lock()
	delete(e.gate.open, e)
	e.gate.mu.Unlock()
	return e.Conn.Close()
}

// admit counts the connection as a known client's, and reports whether there is room. If there are too many known
// connections, it closes an idle connection, never a busy one.
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

// surplus returns the connection to close to make room for e among its kind. room is false if there is no room and no
// connection may be closed. The caller holds mu.
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
		_ = c.Close() // the connection is abandoned in any case
		g.closed(c.RemoteAddr())
	}
}

// next returns a number higher than all previous numbers. The caller holds mu.
func (g *Gate) next() uint64 { g.last++; return g.last }

// state tracks which connections are idle; it is a server's ConnState.
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

// enteredOf returns the counted connection under a server's TLS layer.
func enteredOf(c net.Conn) *entered {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	e, _ := c.(*entered)
	return e
}

// connKey is the key of a request's *entered in the request's context. net/http offers no other place for it.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, enteredOf(c))
}

// admitted counts a request's connection as a known client's; false = no room.
func admitted(r *http.Request) bool {
	e, _ := r.Context().Value(connKey{}).(*entered)
	return e == nil || e.admit()
}
