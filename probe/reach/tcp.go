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

// Connection is the outcome of an attempt to open a connection.
type Connection struct {
	To    netip.AddrPort
	Took  time.Duration
	Limit time.Duration  // the time limit
	Err   error          // nil = the connection was accepted
	ICMP  icmpAnswer     // who refused the connection, if it was not the target
	Near  netip.AddrPort // the local end, invalid if the kernel no longer has it
}

// icmpAnswer is an ICMP error that a router or firewall sent instead of the target. If there was no such error, or
// the kernel does not report it, Text is empty.
type icmpAnswer struct {
	text     string // "port unreachable, by ICMP from 10.0.0.1"
	firewall bool   // only a firewall or a prohibit route sends this error
	from     netip.Addr
}

// Connect opens a TCP connection and closes it. It waits for three fifths of the check's time. By default, that is
// long enough for the second SYN, which is sent after one second.
func Connect(ctx context.Context, to netip.AddrPort) Connection {
	one, limit, cancel := node.Part(ctx, 3)
	defer cancel()
	conn, c := Open(one, to, limit)
	if conn != nil {
		conn.Close()
	}
	return c
}

// Dial opens a TCP connection and does not close it. The result describes the outcome in the words that checks
// use. If the connection fails, it is nil.
func Dial(ctx context.Context, to netip.AddrPort, limit time.Duration) (net.Conn, probe.Result) {
	one, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, c := Open(one, to, limit)
	return conn, c.Result(ctx)
}

// Open opens a TCP connection before ctx ends. limit is the time limit to show in messages.
func Open(ctx context.Context, to netip.AddrPort, limit time.Duration) (net.Conn, Connection) {
	c := Connection{To: to, Limit: limit}
	var icmpErrors errorQueue
	defer icmpErrors.close()
	d := net.Dialer{Control: icmpErrors.open}
	began := time.Now()
	conn, err := d.DialContext(ctx, "tcp", to.String())
	c.Took, c.Err = time.Since(began), err
	if err != nil {
		c.ICMP, c.Near = icmpErrors.last(), icmpErrors.near()
		return nil, c
	}
	c.Near, _ = netip.ParseAddrPort(conn.LocalAddr().String())
	return conn, c
}

// Reason returns the failure in one word. It is a word from probe.Reason, "rejected" for an ICMP error from
// a firewall, or "blackhole" for a blackhole route.
func (c Connection) Reason() string {
	switch {
	case c.ICMP.firewall:
		return "rejected"
	case errors.Is(c.Err, syscall.EINVAL):
		return "blackhole"
	}
	return probe.Reason(c.Err)
}

// Result describes the outcome. It is ok if the connection was accepted.
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
	case c.ICMP.text != "":
		r = probe.Found(probe.Fail, "connection to %s failed: %s", c.To, c.ICMP.text).With(probe.FactICMPFrom,
			c.ICMP.from.String())
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

// Unreachable describes a "destination unreachable" message that another host sent instead of the target.
func Unreachable(code uint8, v4 bool, from netip.Addr) icmpAnswer {
	text, firewall := icmp.Unreachable(int(code), v4)
	return icmpAnswer{fmt.Sprintf("%q by ICMP from %s", text, from), firewall, from}
}
