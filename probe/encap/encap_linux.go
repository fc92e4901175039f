package encap

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
)

// Listener waits for one token on several paths.
type Listener struct {
	token   uint32
	sockets []socket
}

// socket is one place where the token can be seen.
type socket struct {
	*os.File
	path int
	see  func(*Arrival)
}

// Listen opens the sockets. After Listen returns, the listener does not miss any packet. It needs
// the capability NET_RAW.
func Listen(paths []Path, token uint32) (*Listener, error) {
	l := &Listener{token: token}
	for i, p := range paths {
		wire, err := p.onWire(token)
		if err == nil {
			l.sockets = append(l.sockets, socket{wire, i, func(a *Arrival) { a.Wire = true }})
			wire, err = p.behindFirewall(token)
		}
		if err != nil {
			l.Close()
			return nil, err
		}
		l.sockets = append(l.sockets, socket{wire, i, func(a *Arrival) { a.Passed = true }})
	}
	return l, nil
}

// Close closes the sockets.
func (l *Listener) Close() {
	for _, s := range l.sockets {
		s.Close()
	}
}

// Wait returns what happened to the token on each path. It waits until the token has arrived on all paths or ctx
// ends. The error is a read error.
func (l *Listener) Wait(ctx context.Context, n int) ([]Arrival, error) {
	got := make([]Arrival, n)
	errs := make([]error, len(l.sockets))
	var mu sync.Mutex
	var all probe.Workers
	stop := context.AfterFunc(ctx, func() {
		for _, s := range l.sockets {
			_ = s.SetReadDeadline(time.Unix(1, 0)) // wakes the reader; a closed socket has no deadline
		}
	})
	defer stop()
	for i, s := range l.sockets {
		all.Go(func() {
			b := make([]byte, 2048)
			for {
				k, err := s.Read(b)
				if errors.Is(err, os.ErrDeadlineExceeded) {
					return
				}
				if err != nil {
					errs[i] = fmt.Errorf("listening: %w", err)
					return
				}
				if !l.is(b[:k]) { // it arrived before the filter was set
					continue
				}
				mu.Lock()
				s.see(&got[s.path])
				mu.Unlock()
				return
			}
		})
	}
	all.Wait()
	return got, errors.Join(errs...)
}

// is reports whether a packet that passed the filter contains the token.
func (l *Listener) is(b []byte) bool {
	want := binary.BigEndian.AppendUint32(nil, l.token)
	for i := 0; i+len(want) <= len(b); i++ {
		if string(b[i:i+len(want)]) == string(want) {
			return true
		}
	}
	return false
}

// Lengths of headers without options, as the kernel sends them.
const (
	ip4Len = 20
	ip6Len = 40
	udpLen = 8
)

// onWire sees packets when they arrive on any interface, before the firewall.
func (p Path) onWire(token uint32) (*os.File, error) {
	kind := uint32(unix.ETH_P_IP)
	if p.From.Is6() {
		kind = unix.ETH_P_IPV6
	}
	// A socket for all protocols sees packets before the node's ingress rules and eBPF programs. A socket for a single
	// protocol sees them later. The socket is unbound at first, so that no packet arrives before the filter is set.
	is := func(what bpf.Extension, value uint32, drop bool) []bpf.Instruction {
		jump := bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipTrue: 1}
		if drop {
			jump = bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: value, SkipTrue: 1}
		}
		return []bpf.Instruction{bpf.LoadExtension{Num: what}, jump, bpf.RetConstant{Val: 0}}
	}
	incoming := slices.Concat(is(bpf.ExtProto, kind, false), is(bpf.ExtType, unix.PACKET_OUTGOING, true))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket: %w", err)
	}
	header := ip4Len
	if p.From.Is6() {
		header = ip6Len
	}
	if err := attach(fd, append(incoming, p.filter(header, token)...)); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	const all = unix.ETH_P_ALL
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all<<8 | all>>8}); err != nil {
		return nil, errors.Join(fmt.Errorf("binding a packet socket: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "packets"), nil
}

// behindFirewall sees packets that the node accepts for itself. A raw IPv6 socket receives packets
// without their header.
func (p Path) behindFirewall(token uint32) (*os.File, error) {
	family, header := unix.AF_INET, ip4Len
	if p.From.Is6() {
		family, header = unix.AF_INET6, 0
	}
	proto := protoUDP
	if p.Port == 0 {
		proto = protoIPIP
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, proto)
	if err != nil {
		return nil, fmt.Errorf("opening a raw socket: %w", err)
	}
	if err := attach(fd, p.filter(header, token)); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "taken"), nil
}

// filter accepts only our own packets, because the port of a busy tunnel receives all of the node's traffic.
func (p Path) filter(header int, token uint32) []bpf.Instruction {
	var f []bpf.Instruction
	is := func(offset, size int, value uint32) {
		f = append(f, bpf.LoadAbsolute{Off: uint32(offset), Size: size},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipTrue: 1}, bpf.RetConstant{Val: 0})
	}
	at := header + innerLen
	if p.Port != 0 {
		is(header+2, 2, uint32(p.Port))
		at = header + udpLen + blankLen
	}
	switch {
	case header == ip4Len && p.Port == 0:
		is(9, 1, protoIPIP)
	case header == ip4Len:
		is(9, 1, protoUDP)
	case header == ip6Len:
		is(6, 1, protoUDP)
	}
	is(at, 4, token)
	return append(f, bpf.RetConstant{Val: 2048})
}

func attach(fd int, filter []bpf.Instruction) error {
	raw, err := bpf.Assemble(filter)
	if err != nil {
		return fmt.Errorf("building a packet filter: %w", err)
	}
	program := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		program[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: unsafe.SliceData(program)})
	if err != nil {
		return fmt.Errorf("setting a packet filter: %w", err)
	}
	return nil
}
