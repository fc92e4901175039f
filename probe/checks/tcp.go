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
	"github.com/calico-probe/calico-probe/probe/icmp"
)

// FactTook is how long it took until a connection was taken or refused, in milliseconds.
const FactTook probe.Fact = "took_ms"

// FactICMPFrom is who answered by ICMP in place of the target.
const FactICMPFrom probe.Fact = "icmp_from"

// connection is what became of an attempt to open one.
type connection struct {
	to    netip.AddrPort
	took  time.Duration
	limit time.Duration  // how long it was waited for
	err   error          // nil = it was taken
	said  icmpAnswer     // by whom it was refused, if not by the target
	near  netip.AddrPort // its own end, invalid where the kernel has forgotten that
}

// icmpAnswer is what a router or a firewall answers in place of the target. Text
// is empty when nobody did, or the kernel does not tell.
type icmpAnswer struct {
	text     string // "port unreachable, by ICMP from 10.0.0.1"
	firewall bool   // only a firewall or a route that forbids says so
	from     netip.Addr
}

// connect opens a TCP connection and hangs up. It waits three fifths of the time
// the check has, which by default sees the SYN repeated after one second.
func connect(ctx context.Context, to netip.AddrPort) connection {
	one, limit, cancel := part(ctx, 3)
	defer cancel()
	conn, c := open(one, to, limit)
	if conn != nil {
		conn.Close()
	}
	return c
}

// Dial opens a TCP connection and keeps it; the result says how that went, in the words
// of the checks. Without a connection the first of the two is nil.
func Dial(ctx context.Context, to netip.AddrPort, limit time.Duration) (net.Conn, probe.Result) {
	one, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, c := open(one, to, limit)
	return conn, c.result(ctx)
}

// open opens a TCP connection before ctx ends, which is said to be after limit.
func open(ctx context.Context, to netip.AddrPort, limit time.Duration) (net.Conn, connection) {
	c := connection{to: to, limit: limit}
	var heard errorQueue
	defer heard.close()
	d := net.Dialer{Control: heard.open}
	began := time.Now()
	conn, err := d.DialContext(ctx, "tcp", to.String())
	c.took, c.err = time.Since(began), err
	if err != nil {
		c.said, c.near = heard.last(), heard.near()
		return nil, c
	}
	c.near, _ = netip.ParseAddrPort(conn.LocalAddr().String())
	return conn, c
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
		return probe.Found(probe.OK, "connected to %s in %v", c.to, c.took.Round(10*time.Microsecond)).
			With(FactTook, milliseconds(c.took))
	}
	if r, cut := cutShort(ctx, c.err); cut {
		return r
	}
	reason := c.reason()
	var r probe.Result
	switch {
	case c.said.text != "":
		r = probe.Found(probe.Fail, "connection to %s failed: %s", c.to, c.said.text).With(FactICMPFrom, c.said.from.String())
	case reason == "refused":
		r = probe.Found(probe.Fail, "connection to %s refused", c.to).With(FactTook, milliseconds(c.took))
	case reason == "timeout":
		r = probe.Found(probe.Fail, "no answer from %s within %v", c.to, c.limit)
	case reason == "reset", reason == "closed":
		r = probe.Found(probe.Fail, "connection to %s reset while it opens", c.to)
	case reason != "error" && refusals[reason] != "":
		r = probe.Found(probe.Fail, "%s cannot be reached: %s", c.to, refusals[reason])
	default:
		r = probe.Failed(c.err)
	}
	return r.With(probe.FactReason, reason)
}

// unreachable is what a "destination unreachable" says, which somebody sent in place of
// the target.
func unreachable(code uint8, v4 bool, from netip.Addr) icmpAnswer {
	text, firewall := icmp.Unreachable(int(code), v4)
	return icmpAnswer{fmt.Sprintf("%q by ICMP from %s", text, from), firewall, from}
}
