package reach

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
	"github.com/calico-probe/calico-probe/probe/node"
)

// Connection is what became of an attempt to open one.
type Connection struct {
	To    netip.AddrPort
	Took  time.Duration
	Limit time.Duration  // how long it was waited for
	Err   error          // nil = it was taken
	Said  icmpAnswer     // by whom it was refused, if not by the target
	Near  netip.AddrPort // its own end, invalid where the kernel has forgotten that
}

// icmpAnswer is what a router or a firewall answers in place of the target. Text
// is empty when nobody did, or the kernel does not tell.
type icmpAnswer struct {
	text     string // "port unreachable, by ICMP from 10.0.0.1"
	firewall bool   // only a firewall or a route that forbids says so
	from     netip.Addr
}

// Connect opens a TCP connection and hangs up. It waits three fifths of the time
// the check has, which by default sees the SYN repeated after one second.
func Connect(ctx context.Context, to netip.AddrPort) Connection {
	one, limit, cancel := node.Part(ctx, 3)
	defer cancel()
	conn, c := Open(one, to, limit)
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
	conn, c := Open(one, to, limit)
	return conn, c.Result(ctx)
}

// Open opens a TCP connection before ctx ends, which is said to be after limit.
func Open(ctx context.Context, to netip.AddrPort, limit time.Duration) (net.Conn, Connection) {
	c := Connection{To: to, Limit: limit}
	var heard errorQueue
	defer heard.close()
	d := net.Dialer{Control: heard.open}
	began := time.Now()
	conn, err := d.DialContext(ctx, "tcp", to.String())
	c.Took, c.Err = time.Since(began), err
	if err != nil {
		c.Said, c.Near = heard.last(), heard.near()
		return nil, c
	}
	c.Near, _ = netip.ParseAddrPort(conn.LocalAddr().String())
	return conn, c
}

// Reason is one word for how it failed: those of probe.Reason, "rejected" when a
// firewall said so by ICMP, "blackhole" for a route of that type.
func (c Connection) Reason() string {
	switch {
	case c.Said.firewall:
		return "rejected"
	case errors.Is(c.Err, syscall.EINVAL):
		return "blackhole"
	}
	return probe.Reason(c.Err)
}

// Result puts what became of it into words: ok when it was taken.
func (c Connection) Result(ctx context.Context) probe.Result {
	if c.Err == nil {
		return probe.Found(probe.OK, "connected to %s in %v", c.To, c.Took.Round(10*time.Microsecond)).
			With(probe.FactTook, node.Milliseconds(c.Took))
	}
	if r, cut := node.CutShort(ctx, c.Err); cut {
		return r
	}
	reason := c.Reason()
	var r probe.Result
	switch {
	case c.Said.text != "":
		r = probe.Found(probe.Fail, "connection to %s failed: %s", c.To, c.Said.text).With(probe.FactICMPFrom,
			c.Said.from.String())
	case reason == "refused":
		r = probe.Found(probe.Fail, "connection to %s refused", c.To).With(probe.FactTook, node.Milliseconds(c.Took))
	case reason == "timeout":
		r = probe.Found(probe.Fail, "no answer from %s within %v", c.To, c.Limit)
	case reason == "reset", reason == "closed":
		r = probe.Found(probe.Fail, "connection to %s reset while it opens", c.To)
	case reason != "error" && node.Refusals[reason] != "":
		r = probe.Found(probe.Fail, "%s cannot be reached: %s", c.To, node.Refusals[reason])
	default:
		r = probe.Failed(c.Err)
	}
	return r.With(probe.FactReason, reason)
}

// Unreachable is what a "destination unreachable" says, which somebody sent in place of
// the target.
func Unreachable(code uint8, v4 bool, from netip.Addr) icmpAnswer {
	text, firewall := icmp.Unreachable(int(code), v4)
	return icmpAnswer{fmt.Sprintf("%q by ICMP from %s", text, from), firewall, from}
}
