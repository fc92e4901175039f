package tools

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/capture"
)

// Capture shows the node's packets.
var Capture = &probe.Tool{
	Name:  "capture",
	Usage: "[--own] [-i INTERFACE] [-p PROTOCOL] [--seconds N] [--packets N] HOST | HOST:PORT | :PORT",
	Short: "packets of a host and port, or our own: headers only",
	Doc: `Prints a line with the headers of each packet from or to a host, at every interface that it
passes. It never prints the payload. It also finds such packets inside VXLAN and IP in IP,
those that an ICMP error quotes, and ARP and neighbour discovery for the host.

  --own          sends packets, and shows only these, through every NAT: five pings, or with
                 a PORT one TCP connection (its opening and closing packets). Ends when they
                 are answered or time out
  -i INTERFACE   only there
  -p PROTOCOL    only tcp, udp, sctp or icmp
  --seconds N    10 by default, 300 at most
  --packets N    stops after N packets: 1000 by default, 20000 at most
  --mark MARK    only the packets that --own --mark MARK sends on another node
  HOST           an address, a node's name (its InternalIP), or a name that the node
                 resolves with its own /etc/hosts and name servers; IPv6 with a port in
                 brackets: [fd00::1]:443

  capture 10.244.7.9
  capture -i eth0 -p tcp worker-4:179
  capture --own 10.244.7.9
  capture --own --mark c0ffee 10.244.7.9:80

Out marks a packet that leaves, as the interface gets it: after the firewall. In marks one
that arrives, before the firewall. A packet that came in and never left was dropped on this
node, or was addressed to it. B and M are broadcast and multicast. P is for another machine,
although interfaces are not made promiscuous. The kernel joins packets of one connection, so
they may be longer than the MTU.

'calico-probe capture' writes the same to a file for tcpdump and Wireshark, from two nodes
at once, and with --payload each whole packet.`,
	Check: func(args []string) error {
		c, err := ParseCapture(args)
		switch {
		case err != nil:
			return err
		case c.Frames: // its packets could contain their payload, and the probe's pod does not announce that
			return errors.New("capture has no option --frames here: 'calico-probe capture' writes a file")
		case c.Payload:
			return errors.New("the shell shows only headers: 'calico-probe capture --payload' writes whole packets to a file")
		}
		return nil
	},
}

// CaptureArgs holds the arguments of capture.
type CaptureArgs struct {
	capture.Options
	Limit time.Duration
	Own   bool
	Host  string     // as the user typed it, "" = none
	Addr  netip.Addr // the address in Host, if Host is an address
	// If Frames is set, the output is in the format for a capture.Reader instead of text. Only the client sets it.
	Frames bool
}

// ParseCapture parses the arguments of capture. It also parses the options that the client adds:
// --frames and --payload.
func ParseCapture(args []string) (*CaptureArgs, error) {
	c := &CaptureArgs{}
	f := options("capture")
	f.BoolVar(&c.Own, "own", false, "")
	f.BoolVar(&c.Payload, "payload", false, "")
	f.BoolVar(&c.Frames, "frames", false, "")
	f.StringVar(&c.Interface, "i", "", "")
	f.StringVar(&c.Protocol, "p", "", "")
	f.IntVar(&c.Packets, "packets", 1000, "")
	f.Func("mark", "", func(text string) (err error) { c.Mark, err = capture.ParseMark(text); return err })
	seconds(f, &c.Limit, "seconds", 10*time.Second)
	rest, err := words(f, args)
	if err == nil {
		err = within("--seconds", c.Limit, time.Second, 5*time.Minute)
	}
	if err == nil {
		err = within("--packets", c.Packets, 1, capture.MaxPackets)
	}
	if err != nil {
		return c, err
	}
	if len(rest) != 1 {
		return c, errors.New("capture takes one HOST, HOST:PORT or :PORT: capture 10.244.7.9")
	}
	if err := c.parseHost(rest[0]); err != nil {
		return c, err
	}
	switch marked := c.Own || c.Mark != 0; {
	case c.Protocol != "" && !slices.Contains(capture.Protocols(), c.Protocol):
		return c, fmt.Errorf("-p takes %s, not %q", strings.Join(capture.Protocols(), ", "), c.Protocol)
	case c.Port != 0 && c.Protocol == "icmp":
		return c, errors.New("ICMP has no ports: leave out the port, or -p icmp")
	case len(c.Interface) > 15 || strings.ContainsFunc(c.Interface, func(r rune) bool { return r <= ' ' || r == '/' }):
		return c, fmt.Errorf("-i takes the name of an interface, not %q", c.Interface)
	case marked && c.Host == "":
		return c, errors.New("--own takes a HOST to send to")
	case marked && c.Protocol != "":
		return c, errors.New("--own sends pings, or TCP to a port: leave out -p")
	}
	if c.Own && c.Mark == 0 {
		c.Mark = capture.NewMark()
	}
	return c, nil
}

// FactDropped is the number of packets that a capture lacks because the kernel had no space for them.
const FactDropped probe.Fact = "dropped_packets"

// parseHost parses HOST, HOST:PORT or :PORT.
func (c *CaptureArgs) parseHost(text string) error {
	c.Host = text
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		if host, port, split := net.SplitHostPort(text); split == nil {
			n, bad := strconv.ParseUint(port, 10, 16)
			if bad != nil || n == 0 {
				return fmt.Errorf("capture takes HOST, HOST:PORT, [IPv6]:PORT or :PORT, not %q", text)
			}
			c.Host, c.Port = host, uint16(n)
			addr, err = netip.ParseAddr(host)
		}
	}
	if c.Addr = addr.Unmap().WithZone(""); err == nil || c.Host == "" {
		return nil
	}
	if !isName(c.Host) || strings.ContainsAny(c.Host, "[]") {
		return fmt.Errorf("%q is neither an address nor a name", c.Host)
	}
	return nil
}
