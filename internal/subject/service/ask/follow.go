package ask

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/miekg/dns"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// errNotSent is the error for a connection whose packets never left this node.
var errNotSent = errors.New("the node cannot send to it")

// sent opens a connection to a Service. It returns where the kernel sends the connection, and whether the connection
// was accepted. For UDP, it sends one query and does not wait for an answer.
func (f follower) sent(ctx context.Context, s followed) (to netip.AddrPort, accepted bool, err error) {
	one, limit, cancel := node.Part(ctx, 2)
	defer cancel()
	if s.network == "udp" {
		return sentUDP(one, s.to, f.name)
	}
	conn, c := reach.Open(one, s.to, limit)
	if conn != nil {
		defer conn.Close()
	}
	if errors.Is(c.Err, syscall.ECONNREFUSED) {
		to, err = sentRefused(ctx, s.to)
		return to, false, err
	}
	if c.Near.Port() == 0 { // the kernel has closed the socket
		return to, false, fmt.Errorf("%w: %w", errNotSent, c.Err)
	}
	to, err = kernel.SentTo(kernel.Flow{Proto: node.ProtoTCP, From: c.Near, To: s.to})
	return to, c.Err == nil, err
}

// sentUDP sends one query for a name. The connection tracking entry exists as soon as the packet has left.
func sentUDP(ctx context.Context, to netip.AddrPort, name string) (sent netip.AddrPort, accepted bool, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", to.String())
	if err != nil {
		return sent, false, err
	}
	defer conn.Close()
	query, err := new(dns.Msg).SetQuestion(name, dns.TypeA).Pack()
	if err != nil {
		return sent, false, err
	}
	if _, err := conn.Write(query); err != nil {
		return sent, false, err
	}
	near, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return sent, false, err
	}
	sent, err = kernel.SentTo(kernel.Flow{Proto: node.ProtoUDP, From: near, To: to})
	return sent, false, err
}

// The range of source ports. It is above the NodePorts (30000-32767) and within the range that the
// kernel uses for clients (net.ipv4.ip_local_port_range).
const (
	firstPort = 33000
	lastPort  = 60000
)

// sentRefused connects again while it watches, because the kernel immediately removes the entry of
// a refused connection.
func sentRefused(ctx context.Context, to netip.AddrPort) (netip.AddrPort, error) {
	watch, err := kernel.WatchConnections()
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer watch.Close()
	one, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	port := firstPort + rand.IntN(lastPort-firstPort)
	d := net.Dialer{LocalAddr: &net.TCPAddr{Port: port}}
	conn, err := d.DialContext(one, "tcp", to.String())
	if err == nil {
		conn.Close()
	} else if !errors.Is(err, syscall.ECONNREFUSED) {
		return netip.AddrPort{}, err
	}
	near := netip.AddrPortFrom(netip.Addr{}, uint16(port))
	return watch.SentTo(one, kernel.Flow{Proto: node.ProtoTCP, From: near, To: to})
}

// serves reports whether the server that answers can serve the Service's clients. For the API, the server must have a
// certificate for the API's address or name. For DNS, it must resolve the cluster's names.
func (f follower) serves(ctx context.Context, s followed) bool {
	one, _, cancel := node.Part(ctx, 3)
	defer cancel()
	switch s.kind {
	case probe.KindDNS:
		return reach.QueryAddress(one, s.network, s.to.String(), f.name).Status == probe.OK
	case probe.KindDatastore:
		trip, err := node.Readyz(one, s.to)
		return err == nil && trip.Server != nil && (trip.Server.VerifyHostname(s.to.Addr().String()) == nil ||
			trip.Server.VerifyHostname("kubernetes.default.svc") == nil)
	}
	return false
}
