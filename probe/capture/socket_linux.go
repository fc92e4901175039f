package capture

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/mdlayher/socket"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// Capture is an open packet socket.
type Capture struct {
	opts  Options
	vxlan []uint16
	flow  *flow // nil = no mark to look for
	conn  *socket.Conn
	raw   syscall.RawConn
	names map[int]string
	read  int // number of bytes of packets so far
	buf   []byte
	aside []byte // a packet's ancillary data
}

// buffered is the number of bytes of packets that the kernel may queue until this process reads them.
const buffered = 4 << 20

// Open starts a capture. If this process lacks the right to capture, the error wraps probe.ErrNotVisible.
func Open(o Options) (*Capture, error) {
	if len(o.Hosts) > maxHosts {
		o.Hosts = o.Hosts[:maxHosts]
	}
	c := &Capture{opts: o, vxlan: vxlanPorts(), names: map[int]string{}, buf: make([]byte, o.snapLength()),
		aside: make([]byte, 256)}
	if o.Mark != 0 {
		c.flow = &flow{mark: o.Mark}
	}
	index := 0
	if o.Interface != "" {
		i, err := net.InterfaceByName(o.Interface)
		if err != nil {
			return nil, fmt.Errorf("no interface %s here", o.Interface)
		}
		index = i.Index
	}
	code, err := o.filter(c.vxlan)
	if err != nil {
		return nil, err
	}
	program, err := bpf.Assemble(code)
	if err != nil {
		return nil, fmt.Errorf("building a packet filter: %w", err)
	}
	// Request packets without their link-layer header, because that header differs between interfaces. Start without a
	// protocol, so that no packet arrives before the filter is set.
	c.conn, err = socket.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0, "packet", nil)
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("capturing packets requires the capability NET_RAW: %w", probe.ErrNotVisible)
	}
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket: %w", err)
	}
	if err := c.begin(program, index); err != nil {
		return nil, errors.Join(fmt.Errorf("opening a packet socket: %w", err), c.conn.Close())
	}
	return c, nil
}

// begin configures the socket. As the last step, it enables packets.
func (c *Capture) begin(program []bpf.RawInstruction, index int) error {
	err := c.conn.SetBPF(program)
	if err == nil {
		err = c.conn.SetsockoptInt(unix.SOL_PACKET, unix.PACKET_AUXDATA, 1)
	}
	if err == nil {
		err = c.conn.SetsockoptInt(unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}
	if err == nil {
		err = c.conn.SetReadBuffer(buffered) // as much as this process's rights allow
	}
	if err == nil {
		c.raw, err = c.conn.SyscallConn()
	}
	if err != nil {
		return err
	}
	const all = unix.ETH_P_ALL
	return c.conn.Bind(&unix.SockaddrLinklayer{Protocol: all<<8 | all>>8, Ifindex: index})
}

// vxlanPorts returns the ports of the node's VXLAN interfaces, and Calico's default port.
func vxlanPorts() []uint16 {
	out := []uint16{defaultVXLAN}
	links, _ := kernel.Links() // if they cannot be read, only the default port is used
	for _, l := range links {
		if l.VXLAN != nil && !slices.Contains(out, uint16(l.VXLAN.Port)) && len(out) < maxPorts {
			out = append(out, uint16(l.VXLAN.Port))
		}
	}
	return out
}

// VXLAN returns the ports whose packets the capture treats as VXLAN.
func (c *Capture) VXLAN() []uint16 { return c.vxlan }

// Next waits for a packet. When ctx ends, Next returns the error of ctx.
func (c *Capture) Next(ctx context.Context) (Packet, error) {
	if err := c.conn.SetReadDeadline(time.Time{}); err != nil {
		return Packet{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = c.conn.SetReadDeadline(time.Unix(0, 1)) })()
	for {
		if ctx.Err() != nil {
			return Packet{}, context.Cause(ctx)
		}
		p, err := c.receive()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue // ctx has ended
		case errors.Is(err, unix.ENETDOWN): // an interface that went down reports this once
			continue
		case err != nil:
			return p, fmt.Errorf("reading packets: %w", err)
		}
		layers := dissect(p.Protocol, p.Data, c.vxlan)
		if len(layers) == 0 {
			continue
		}
		p.Discovery = isDiscovery(layers)
		if c.flow != nil && !c.flow.has(layers) && !p.Discovery {
			continue
		}
		if p.Data = slices.Clone(p.Data); !c.opts.Payload {
			p.Data = headers(p.Protocol, p.Data, c.vxlan)
		}
		if c.read += len(p.Data); c.read > maxBytes {
			return Packet{}, ErrFull
		}
		return p, nil
	}
}

// receive reads one packet. The packet's data is valid until the next call.
func (c *Capture) receive() (Packet, error) {
	var n, beside int
	var from unix.Sockaddr
	var failed error
	err := c.raw.Read(func(fd uintptr) bool {
		n, beside, _, from, failed = unix.Recvmsg(int(fd), c.buf, c.aside, 0)
		return !errors.Is(failed, unix.EAGAIN) && !errors.Is(failed, unix.EINTR)
	})
	if err := errors.Join(err, failed); err != nil {
		return Packet{}, err
	}
	p := Packet{Data: c.buf[:n], Length: n}
	if at, is := from.(*unix.SockaddrLinklayer); is {
		p.Interface, p.Direction = c.name(at.Ifindex), Direction(at.Pkttype)
		p.Protocol, p.Device = at.Protocol<<8|at.Protocol>>8, at.Hatype
		p.From = slices.Clone(at.Addr[:min(int(at.Halen), len(at.Addr))])
	}
	c.beside(&p, c.aside[:beside])
	return p, nil
}

// beside parses the kernel's ancillary data for a packet, which contains the packet's time and original length.
func (c *Capture) beside(p *Packet, b []byte) {
	p.Time = time.Now()
	messages, err := unix.ParseSocketControlMessage(b)
	if err != nil {
		return
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16:
			p.Time = time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		case m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA && len(m.Data) >= 8:
			p.Length = max(int(binary.NativeEndian.Uint32(m.Data[4:])), p.Length)
		}
	}
}

// name returns the name of an interface. The interface may no longer exist.
func (c *Capture) name(index int) string {
	if _, known := c.names[index]; !known {
		c.names[index] = fmt.Sprint("if", index)
		if i, err := net.InterfaceByIndex(index); err == nil {
			c.names[index] = i.Name
		}
	}
	return c.names[index]
}

// Dropped returns the number of packets that passed the filter since the last call but did not fit
// in the kernel's queue.
func (c *Capture) Dropped() (int, error) {
	s, err := c.conn.GetsockoptTpacketStats(unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0, fmt.Errorf("reading the number of dropped packets: %w", err)
	}
	return int(s.Drops), nil
}

// Close stops the capture.
func (c *Capture) Close() error { return c.conn.Close() }
