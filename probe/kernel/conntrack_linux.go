package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// SentTo returns the address to which the kernel actually sends the packets of a connection in this network namespace.
// This is the source of the expected answers. It returns ErrNotTracked if the kernel has no entry. For example, the
// kernel forgets a refused connection immediately.
func SentTo(f Flow) (netip.AddrPort, error) {
	family := uint8(unix.AF_INET6)
	if f.To.Addr().Is4() {
		family = unix.AF_INET
	}
	// The kernel flags the single answer as one part of several, and ends it with the acknowledgement.
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_GET, unix.NLM_F_ACK)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: family, Version: nl.NFNETLINK_V0})
	req.AddData(tupleOf(f))
	answers, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return netip.AddrPort{}, ErrNotTracked
	case err != nil:
		return netip.AddrPort{}, fmt.Errorf("looking up the connection: %w", firewallError(err))
	}
	for _, m := range answers {
		if _, sent, ok := tracked(m); ok {
			return sent, nil
		}
	}
	return netip.AddrPort{}, errors.New("the kernel does not report where the connection goes")
}

// tupleOf encodes a connection as its sender sees it.
func tupleOf(f Flow) *nl.RtAttr {
	src, dst := nl.CTA_IP_V6_SRC, nl.CTA_IP_V6_DST
	if f.To.Addr().Is4() {
		src, dst = nl.CTA_IP_V4_SRC, nl.CTA_IP_V4_DST
	}
	port := func(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }
	tuple := nl.NewRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_ORIG, nil)
	addresses := tuple.AddRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_IP, nil)
	addresses.AddRtAttr(src, f.From.Addr().AsSlice())
	addresses.AddRtAttr(dst, f.To.Addr().AsSlice())
	protocol := tuple.AddRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_PROTO, nil)
	protocol.AddRtAttr(nl.CTA_PROTO_NUM, []byte{byte(f.Proto)})
	protocol.AddRtAttr(nl.CTA_PROTO_SRC_PORT, port(f.From.Port()))
	protocol.AddRtAttr(nl.CTA_PROTO_DST_PORT, port(f.To.Port()))
	return tuple
}

// tracked parses an entry in the connection table.
func tracked(message []byte) (f Flow, sent netip.AddrPort, ok bool) {
	if len(message) < nl.SizeofNfgenmsg {
		return f, sent, false
	}
	var sender, answers Flow
	for _, a := range nftAttrs(message[nl.SizeofNfgenmsg:]) {
		switch int(a.kind) {
		case nl.CTA_TUPLE_ORIG:
			sender = flowIn(a.data)
		case nl.CTA_TUPLE_REPLY:
			answers = flowIn(a.data)
		}
	}
	return sender, answers.From, sender.To.IsValid() && answers.From.IsValid()
}

// flowIn parses one direction of a connection.
func flowIn(tuple []byte) Flow {
	var f Flow
	var from, to netip.Addr
	var fromPort, toPort uint16
	for _, part := range nftAttrs(tuple) {
		for _, a := range nftAttrs(part.data) {
			addr, _ := netip.AddrFromSlice(a.data)
			switch {
			case int(part.kind) == nl.CTA_TUPLE_IP && (a.kind == nl.CTA_IP_V4_SRC || a.kind == nl.CTA_IP_V6_SRC):
				from = addr
			case int(part.kind) == nl.CTA_TUPLE_IP && (a.kind == nl.CTA_IP_V4_DST || a.kind == nl.CTA_IP_V6_DST):
				to = addr
			case int(part.kind) != nl.CTA_TUPLE_PROTO:
			case a.kind == nl.CTA_PROTO_NUM && len(a.data) > 0:
				f.Proto = int(a.data[0])
			case a.kind == nl.CTA_PROTO_SRC_PORT && len(a.data) >= 2:
				fromPort = binary.BigEndian.Uint16(a.data)
			case a.kind == nl.CTA_PROTO_DST_PORT && len(a.data) >= 2:
				toPort = binary.BigEndian.Uint16(a.data)
			}
		}
	}
	f.From, f.To = netip.AddrPortFrom(from, fromPort), netip.AddrPortFrom(to, toPort)
	return f
}

// NewConnections watches for connections that this network namespace starts to track. It also finds a connection
// that ends before SentTo can look it up. It receives every new connection, so watch only during one attempt.
type NewConnections struct{ socket *nl.NetlinkSocket }

// newConnections is the kernel's multicast group for new connections (NFNLGRP_CONNTRACK_NEW in
// linux/netfilter/nfnetlink.h).
const newConnections = 1

// WatchConnections starts a watch.
func WatchConnections() (*NewConnections, error) {
	s, err := nl.Subscribe(unix.NETLINK_NETFILTER, newConnections)
	if err != nil {
		return nil, fmt.Errorf("watching new connections: %w", firewallError(err))
	}
	// On a busy node, the kernel drops events that do not fit in the queue. The result is then unknown.
	pause := unix.NsecToTimeval(int64(eventWait))
	if err := s.SetReceiveTimeout(&pause); err != nil {
		s.Close()
		return nil, fmt.Errorf("watching new connections: %w", err)
	}
	return &NewConnections{s}, nil
}

// eventWait is the maximum time to wait for the event of a new connection. The kernel sends the
// event before the packet.
const eventWait = 100 * time.Millisecond

// Close stops the watch.
func (n *NewConnections) Close() { n.socket.Close() }

// SentTo returns the address to which the kernel sent the packets of a connection that was created after the watch
// started. Only the port of its source must match. It returns ErrNotTracked if the kernel did not report such a
// connection.
func (n *NewConnections) SentTo(ctx context.Context, f Flow) (netip.AddrPort, error) {
	for ctx.Err() == nil {
		messages, from, err := n.socket.Receive()
		switch {
		case errors.Is(err, syscall.EAGAIN):
			return netip.AddrPort{}, ErrNotTracked
		case err != nil:
			return netip.AddrPort{}, fmt.Errorf("watching new connections: %w", err)
		case from.Pid != nl.PidKernel:
			continue
		}
		for _, m := range messages {
			at, sent, ok := tracked(m.Data)
			if ok && at.Proto == f.Proto && at.To == f.To && at.From.Port() == f.From.Port() {
				return sent, nil
			}
		}
	}
	return netip.AddrPort{}, ctx.Err()
}
