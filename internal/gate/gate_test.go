package gate

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe/must"
)

// listening is a listener of this machine, and where it listens.
func listening(t testing.TB) (net.Listener, string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	return l, l.Addr().String()
}

// dial connects from an address of this machine, and says something.
func dial(t testing.TB, from, to, says string) {
	t.Helper()
	d := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c := must.Get(d.DialContext(t.Context(), "tcp", to))(t)
	t.Cleanup(func() { c.Close() })
	_, _ = io.WriteString(c, says) // it may be closed already, for others
}

// gated is a gate that takes connections, and what it takes in their order.
func gated(t testing.TB) (g *Gate, at string, next func() *entered) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has every address of 127.0.0.0/8")
	}
	l, at := listening(t)
	g = newGate(l, func(net.Addr) {})
	t.Cleanup(func() { l.Close() })
	return g, at, func() *entered {
		t.Helper()
		c := must.Get(g.Accept())(t)
		return c.(*entered)
	}
}

func (g *Gate) has(e *entered) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.open[e]
	return ok
}

// TestStrangers requires that an address keeps to its share. If many addresses use all connections, the address with
// the most must lose one.
func TestStrangers(t *testing.T) {
	t.Parallel()
	g, at, next := gated(t)
	enter := func(from string) *entered {
		t.Helper()
		dial(t, from, at, "")
		return next()
	}
	var others []*entered // before: it is not the oldest of all that has to go
	for i := range maxOfKind - maxFromAddress {
		others = append(others, enter(fmt.Sprintf("127.0.1.%d", i+1)))
	}
	first, second := enter("127.0.0.2"), enter("127.0.0.2")
	for range maxFromAddress - 2 {
		enter("127.0.0.2")
	}
	if !g.has(first) || len(g.open) != maxOfKind {
		t.Fatalf("%d are open, the first %v", len(g.open), g.has(first))
	}
	latest := enter("127.0.0.2")
	if g.has(first) || !g.has(second) || !g.has(latest) || len(g.open) != maxOfKind {
		t.Errorf("one more of the same: %d are open; first %v, second %v, latest %v", len(g.open), g.has(first), g.has(second), g.has(latest))
	}
	late := enter("127.0.2.1")
	if len(g.open) != maxOfKind || !g.has(late) || !g.has(others[0]) || g.has(second) {
		t.Errorf("one of another address: %d are open; late %v, others %v, second of the most %v", len(g.open), g.has(late), g.has(others[0]), g.has(second))
	}
	_ = second.SetReadDeadline(time.Now().Add(10 * time.Second)) // it fails too where it is closed
	if _, err := second.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading from one that was given up: %v", err)
	}
}

// TestKnownClients requires that strangers do not displace known clients, that idle connections close before busy ones,
// and that a new client is refused if all are busy.
func TestKnownClients(t *testing.T) {
	t.Parallel()
	g, at, next := gated(t)
	enter := func(from string) *entered {
		t.Helper()
		dial(t, from, at, "")
		return next()
	}
	var known []*entered
	for range maxFromAddress {
		e := enter("127.0.0.2")
		if first, second := e.admit(), e.admit(); !first || !second {
			t.Fatal("there is room, and none is given")
		}
		known = append(known, e)
	}
	for range 2 * maxOfKind {
		enter("127.0.0.2")
	}
	for i, e := range known {
		if !g.has(e) {
			t.Fatalf("strangers have had known client %d closed", i)
		}
	}
	if got := len(g.open) - len(known); got != maxFromAddress {
		t.Errorf("beside known clients there is room for %d strangers of their address", got)
	}
	if enter("127.0.0.2").admit() {
		t.Error("one more is let in, and all are busy")
	}
	if !enter("127.0.0.3").admit() {
		t.Error("another address has no room")
	}
	for _, e := range known[:2] {
		g.state(e, http.StateIdle)
	}
	g.state(known[0], http.StateActive)
	g.state(known[0], http.StateIdle) // later than the other
	if !enter("127.0.0.2").admit() || !g.has(known[0]) || g.has(known[1]) {
		t.Errorf("for one more: of the idle ones the later is there %v, the earlier %v", g.has(known[0]), g.has(known[1]))
	}
}

// TestNetwork counts the addresses that one machine may have as one.
func TestNetwork(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "2001:db8:1:2::9": "2001:db8:1:2::", "fe80::1%eth0": "fe80::",
	} {
		if got := network(netip.MustParseAddr(text)); got != netip.MustParseAddr(want) {
			t.Errorf("%s counts as %v, want %s", text, got, want)
		}
	}
}
