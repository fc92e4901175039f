package tools

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/capture"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// Capture shows packets of the node.
var Capture = &probe.Tool{
	Name:  "capture",
	Usage: "[--own] [-i INTERFACE] [-p PROTOCOL] [--seconds N] [--packets N] HOST | HOST:PORT | :PORT",
	Short: "packets of a host and port, or our own: headers only",
	Doc: `Prints a line for each packet from or to a host, at every interface that it passes: its
headers, and nothing of what is in it. Also such in VXLAN and IP in IP, those that an ICMP
error quotes, and ARP and neighbour discovery for the host.

  --own          sends packets itself, and shows only these: five pings, or with a PORT one
                 TCP connection (what begins and ends it), through every NAT. Ends when they
                 are answered, or will not be
  -i INTERFACE   only there
  -p PROTOCOL    only tcp, udp, sctp or icmp
  --seconds N    10 by default, 300 at most
  --packets N    1000 by default, 20000 at most; then it ends
  --mark MARK    only the packets that --own --mark MARK sends on another node
  HOST           an address, a node's name (its InternalIP), or a name that the node's own
                 /etc/hosts and name servers know; IPv6 with a port in brackets:
                 [fd00::1]:443

  capture 10.244.7.9
  capture -i eth0 -p tcp worker-4:179
  capture --own 10.244.7.9
  capture --own --mark c0ffee 10.244.7.9:80

Out is a packet that leaves, as the interface gets it: behind the firewall. In is one that
comes, before the firewall: one that came in and went out nowhere was dropped on this node,
or was for it. B and M are broadcast and multicast, P is for another machine, though
interfaces are not made promiscuous. The kernel joins packets of one connection, so that
they may be longer than the MTU.

'calico-probe capture' writes the same to a file for tcpdump and Wireshark, of two nodes at
once, and with --payload all of each packet.`,
	Parse: func(args []string) (probe.ToolFunc, error) {
		c, err := ParseCapture(args)
		if err == nil && c.Payload && !c.frames {
			err = errors.New("here only headers are shown: 'calico-probe capture --payload' writes a file with all of it")
		}
		return c.run, err
	},
}

// Capturing are the arguments of capture.
type Capturing struct {
	capture.Options
	Limit time.Duration
	Own   bool
	Host  string // as it was typed, "" = none

	frames bool       // for a capture.Reader instead of people
	addr   netip.Addr // of Host, when that is an address
}

// ParseCapture reads the arguments of capture.
func ParseCapture(args []string) (Capturing, error) {
	var c Capturing
	f := options("capture")
	f.BoolVar(&c.Own, "own", false, "")
	f.BoolVar(&c.Payload, "payload", false, "")
	f.BoolVar(&c.frames, "frames", false, "")
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
		err = within("--packets", c.Packets, 1, capture.MostPackets)
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

// Typed checks what a person typed for a tool. Its Parse takes the client's own words too: that of a capture --frames,
// which the client says with options that the probe's pod tells of, such as --payload.
func Typed(t *probe.Tool, args []string) error {
	if _, err := t.Parse(args); err != nil || t != Capture {
		return err
	}
	if c, _ := ParseCapture(args); c.frames {
		return errors.New("capture has no option --frames here: 'calico-probe capture' writes a file")
	}
	return nil
}

// parseHost reads HOST, HOST:PORT or :PORT.
func (c *Capturing) parseHost(text string) error {
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
	if c.addr = addr.Unmap().WithZone(""); err == nil || c.Host == "" {
		return nil
	}
	if _, ok := dns.IsDomainName(c.Host); !ok || strings.ContainsAny(c.Host, " /:@[]") {
		return fmt.Errorf("%q is neither an address nor a name", c.Host)
	}
	return nil
}

// lookUp finds the addresses of the host; false = there are none, and the result says why.
func (c *Capturing) lookUp(ctx context.Context, j *probe.Job) (probe.Result, bool) {
	switch {
	case c.Host == "":
		return probe.Result{}, true
	case c.addr.IsValid():
		c.Hosts = []netip.Addr{c.addr}
	default:
		addrs, by, r := resolve(ctx, j, c.Host)
		if len(addrs) == 0 { // what is marked is known without
			return r, c.Mark != 0 && !c.Own
		}
		texts := make([]string, len(addrs))
		for i, a := range addrs {
			texts[i] = a.String()
		}
		c.say(j, "%s is %s, by %s", c.Host, strings.Join(texts, ", "), by)
		c.Hosts = addrs
	}
	if c.Own {
		c.Hosts = c.Hosts[:1]
		c.addr = c.Hosts[0]
		// A neighbour that does not answer is why nothing leaves.
		if way, _, err := kernel.RouteOf(kernel.Packet{To: c.addr}); err == nil && len(way.Hops) == 1 &&
			way.Hops[0].Gateway.IsValid() {
			c.Hosts = append(c.Hosts, way.Hops[0].Gateway)
		}
	}
	return probe.Result{}, true
}

// say is for people.
func (c *Capturing) say(j *probe.Job, format string, args ...any) {
	if !c.frames {
		j.Say(format, args...)
	}
}

// settling is how long packets may take that are under way when everything is answered.
const settling = 300 * time.Millisecond

func (c Capturing) run(ctx context.Context, j *probe.Job) probe.Result {
	if r, ok := c.lookUp(ctx, j); !ok {
		return r
	}
	socket, err := capture.Open(c.Options)
	if err != nil {
		return unread(err)
	}
	defer socket.Close()
	limited, cancel := context.WithTimeout(ctx, c.Limit)
	defer cancel()
	show, err := c.shower(j, socket)
	if err != nil {
		return probe.Failed(err)
	}
	var answer probe.Result
	answered := probe.Async(func() error {
		if !c.Own {
			return nil
		}
		if answer = c.send(limited); limited.Err() == nil {
			time.AfterFunc(settling, cancel)
		}
		return nil
	})
	seen, err := c.read(limited, socket, show)
	cancel()
	if err = errors.Join(err, <-answered); err != nil {
		return probe.Failed(err)
	}
	r := c.outcome(seen, answer)
	if r.Status == probe.OK { // else who asked says it
		c.say(j, "%s", r.Saw)
	}
	return r
}

// shower is what shows packets: in words, or for a capture.Reader.
func (c Capturing) shower(j *probe.Job, socket *capture.Capture) (func(capture.Packet) error, error) {
	if c.frames {
		w, err := capture.NewWriter(j.Out, socket.VXLAN())
		if err != nil {
			return nil, err
		}
		return w.Packet, nil
	}
	return func(p capture.Packet) error {
		j.Say("%s", capture.Line(p, socket.VXLAN()))
		return nil
	}, nil
}

// read shows packets until ctx ends or there are enough. They are read while they are shown: the kernel does not wait.
func (c Capturing) read(ctx context.Context, socket *capture.Capture, show func(capture.Packet) error) (*tally, error) {
	var failed, uncounted error
	var dropped int
	packets := make(chan capture.Packet, c.Packets)
	ended := probe.Async(func() error {
		defer close(packets)
		for range c.Packets {
			p, err := socket.Next(ctx)
			if err != nil {
				if ctx.Err() == nil {
					failed = err
				}
				break
			}
			packets <- p
		}
		dropped, uncounted = socket.Dropped()
		return nil
	})
	seen := &tally{}
	for p := range packets {
		seen.add(p)
		if err := show(p); err != nil {
			return nil, err // the session is gone
		}
	}
	seen.dropped = dropped
	switch crash := <-ended; {
	case crash != nil:
		return nil, crash
	case errors.Is(failed, capture.ErrFull):
		seen.ended = failed.Error()
	case failed != nil:
		return nil, failed
	case uncounted != nil:
		return nil, uncounted
	case seen.all == c.Packets:
		seen.ended = "as many as were wanted (--packets)"
	}
	return seen, nil
}
