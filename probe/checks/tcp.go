package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// FactTook is how long it took until a connection was taken or refused, in milliseconds.
const FactTook probe.Fact = "took_ms"

// connection is what became of an attempt to open one.
type connection struct {
	to    netip.AddrPort
	took  time.Duration
	limit time.Duration // how long it was waited for
	err   error         // nil = it was taken
	said  icmpAnswer    // by whom it was refused, if not by the target
}

// icmpAnswer is what a router or a firewall answers in place of the target. Text
// is empty when nobody did, or the kernel does not tell.
type icmpAnswer struct {
	text     string // "port unreachable, by ICMP from 10.0.0.1"
	firewall bool   // only a firewall or a route that forbids says so
}

// connect opens a TCP connection and hangs up. It waits three fifths of the time
// the check has, which by default sees the SYN repeated after one second.
func connect(ctx context.Context, to netip.AddrPort) connection {
	c := connection{to: to}
	one, limit, cancel := part(ctx, 3)
	defer cancel()
	c.limit = limit
	var heard errorQueue
	defer heard.close()
	d := net.Dialer{Control: heard.open}
	began := time.Now()
	conn, err := d.DialContext(one, "tcp", to.String())
	c.took, c.err = time.Since(began), err
	if err != nil {
		c.said = heard.last()
		return c
	}
	conn.Close()
	return c
}

// reason is one word for how it failed: those of probe.Reason, "rejected" when a
// firewall said so by ICMP, "blackhole" for a route of that type.
func (c connection) reason() string {
	switch {
	case c.said.firewall:
		return "rejected"
	case errors.Is(c.err, syscall.EINVAL):
		return "blackhole"
	}
	return probe.Reason(c.err)
}

// result puts what became of it into words: ok when it was taken.
func (c connection) result(ctx context.Context) probe.Result {
	if c.err == nil {
		return probe.Found(probe.OK, "%s takes connections, in %v", c.to, c.took.Round(10*time.Microsecond)).With(FactTook, milliseconds(c.took))
	}
	if r, cut := cutShort(ctx, c.err); cut {
		return r
	}
	reason := c.reason()
	var r probe.Result
	switch {
	case c.said.text != "":
		r = probe.Found(probe.Fail, "a connection to %s is answered with %s", c.to, c.said.text)
	case reason == "refused":
		r = probe.Found(probe.Fail, "a connection to %s is refused", c.to).With(FactTook, milliseconds(c.took))
	case reason == "timeout":
		r = probe.Found(probe.Fail, "no answer from %s within %v", c.to, c.limit)
	case reason == "reset", reason == "closed":
		r = probe.Found(probe.Fail, "a connection to %s is reset while it opens", c.to)
	case reason != "error" && refusals[reason] != "":
		r = probe.Found(probe.Fail, "%s cannot be reached: %s", c.to, refusals[reason])
	default:
		r = probe.Failed(c.err)
	}
	return r.With(probe.FactReason, reason)
}

// unreachable puts the codes of ICMP's "destination unreachable" into words. A
// host that has the address answers a connection it does not want with a reset:
// "port unreachable" in its place is what a firewall's REJECT says.
func unreachable(code uint8, v4 bool, from netip.Addr) icmpAnswer {
	type meaning struct {
		text     string
		firewall bool
	}
	words := map[uint8]meaning{0: {"no route", false}, 1: {"administratively prohibited", true}, 3: {"address unreachable", false}, 4: {"port unreachable", true}, 5: {"source address refused by policy", true}, 6: {"route rejected", true}}
	if v4 {
		words = map[uint8]meaning{0: {"network unreachable", false}, 1: {"host unreachable", false}, 3: {"port unreachable", true}, 9: {"network prohibited", true}, 10: {"host prohibited", true}, 13: {"administratively prohibited", true}}
	}
	said := words[code]
	if said.text == "" {
		said.text = fmt.Sprintf("destination unreachable, code %d", code)
	}
	return icmpAnswer{fmt.Sprintf("%q by ICMP from %s", said.text, from), said.firewall}
}
