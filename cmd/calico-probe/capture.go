package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/output"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/session"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/capture"
	"github.com/calico-probe/calico-probe/probe/tools"
)

const captureExample = `  # how far do our own pings come on the node? and a TCP connection?
  calico-probe capture --node worker-3 --own 10.244.7.9
  calico-probe capture --node worker-3 --own 10.244.7.9:80

  # do they come to the other node? both ends, in one file
  calico-probe capture --node worker-3 --peer worker-7 --own 10.244.7.9 -w both.pcapng

  # BGP with one peer, for 30 seconds, in Wireshark
  calico-probe capture --node worker-3 --seconds 30 10.0.0.7:179 -w - | wireshark -k -i -`

// captureSpare is what a capture may take beside its own time: to put probes on nodes, and to remove them.
const captureSpare = 90 * time.Second

// captureFlags are what of the verb's flags becomes the tool's arguments.
type captureFlags struct {
	session.CaptureOptions
	own, payload     bool
	device, protocol string
	seconds, packets int
	file             string
}

func (a *app) capture() *cobra.Command {
	o, c, out := &runFlags{app: a}, &captureFlags{}, &output.Set{}
	cmd := &cobra.Command{
		Use: "capture --node NODE [HOST | HOST:PORT | :PORT]", Short: "Capture packets on a node, or on two at once",
		Example: captureExample,
		Long: `Shows packets of a host and a port at every interface of the node, or those that it sends itself
(--own), as lines or as a file for tcpdump and Wireshark. Only headers leave the node, unless
--payload asks for more. With --peer the same is captured on another node too: of --own, what
left the one and did not come to the other was lost between them. Interfaces are named NODE
INTERFACE; each node's times are its own, and the file says how their clocks differ.

HOST is an address, the name of a node, or a name that the node itself can look up. What is sent
by --own is known behind every NAT, and a HOST is not: there it has another address.

` + exitCodes(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return ui.BadUsage("capture takes one HOST, HOST:PORT or :PORT")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.capture(cmd, c, args[0], out) },
	}
	f := cmd.Flags()
	o.FailOn, o.Profile = examine.FailOnFail, string(probe.Quick)
	nodeFlag(f, &o.Node, "the node to capture on, and to send from with --own")
	nodeFlagNamed(f, "peer", &c.Peer, "another node, to capture the same on at the same time")
	f.StringVar(&c.Pod, "pod", "", "capture in the network of this pod of the node, NAMESPACE/NAME")
	f.BoolVar(&c.own, "own", false, "send five pings to HOST, or open one TCP connection to its PORT, "+
		"and capture only these")
	f.StringVarP(&c.device, "interface", "i", "", "only this interface")
	f.StringVarP(&c.protocol, "protocol", "p", "", "only this protocol: tcp, udp, sctp or icmp")
	f.IntVar(&c.seconds, "seconds", 10, "for how long, at most 300")
	f.IntVar(&c.packets, "packets", 1000, "how many packets of each node, at most 20000")
	f.BoolVar(&c.payload, "payload", false, "all of each packet and not only its headers: what is said, "+
		"secrets with it")
	out.Flag(cmd, []report.Format{{Name: "lines", For: "for people: a line for each packet"},
		{Name: "pcapng", For: "for tcpdump and Wireshark", Bytes: true}})
	f.StringVarP(&c.file, "write", "w", "", "the same as -o pcapng=FILE; - is stdout")
	o.reaching(cmd)
	f.Lookup("timeout").DefValue, o.Timeout = "0", 0
	f.Lookup("timeout").Usage = "limit of the whole run; 0 = --seconds and 90s more"
	a.connecting(cmd)
	completions(cmd, map[string]completer{"node": o.nodeNames, "peer": o.nodeNames, "via": viaMethods,
		"protocol": oneOf(capture.Protocols())})
	return cmd
}

// capture is one capture, as the flags say.
func (o *runFlags) capture(cmd *cobra.Command, c *captureFlags, what string, out *output.Set) error {
	c.Args = c.arguments(what)
	wanted, err := tools.ParseCapture(c.Args)
	if err != nil {
		return ui.BadUsage("%w", err)
	}
	if !cmd.Flags().Changed("timeout") {
		o.Timeout = wanted.Limit + captureSpare
	}
	switch {
	case !injector.AccessOf(o.Via).Asks(injector.TheNode):
		return ui.BadUsage("--via %s puts no probe on the node, and a capture is made by one", o.Via)
	case c.Peer != "" && injector.AccessOf(o.Via).Here():
		return ui.BadUsage("--via local reaches no other node: leave out --peer")
	case c.Peer != "" && c.Peer == o.Node:
		return ui.BadUsage("--peer %s is the node itself: name another one", c.Peer)
	case o.Timeout <= wanted.Limit:
		return ui.BadUsage("--timeout %v leaves no time beside --seconds %d", o.Timeout, c.seconds)
	case c.Pod != "" && c.Peer != "" && !c.own:
		return ui.BadUsage("--pod is of --node alone: with --peer, take --own too")
	}
	if err := o.noContradiction(cmd); err != nil {
		return err
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	if err := o.Complete(); err != nil {
		return err
	}
	if err := client.Resolve(cmd.Context(), &o.Options); err != nil {
		return err
	}
	if c.file != "" {
		out.Named(pcapngTo(c.file))
	}
	if err := out.Open(o.Out); err != nil {
		return err
	}
	ctx, cancel := o.Deadline(cmd.Context())
	defer cancel()
	out.Until(ctx)
	c.Run = o.Options
	to := &captureOutput{out: out, filter: strings.Join(c.Args, " "), files: map[*output.Place]*session.Pcapng{}}
	return out.Close(session.Capture(ctx, client, c.CaptureOptions, out.Begin, to))
}

// pcapngTo is what -w FILE is for -o.
func pcapngTo(file string) string {
	if file == "-" {
		return "pcapng"
	}
	return "pcapng=" + file
}

// arguments are those of the tool.
func (c *captureFlags) arguments(what string) []string {
	out := []string{"--seconds", strconv.Itoa(c.seconds), "--packets", strconv.Itoa(c.packets)}
	if c.own {
		out = append(out, "--own")
	}
	if c.payload {
		out = append(out, "--payload")
	}
	if c.device != "" {
		out = append(out, "-i", c.device)
	}
	if c.protocol != "" {
		out = append(out, "-p", c.protocol)
	}
	return append(out, what)
}

// captureOutput writes a capture to where the flags say.
type captureOutput struct {
	out    *output.Set
	filter string
	files  map[*output.Place]*session.Pcapng
}

// Packet writes one.
func (c *captureOutput) Packet(p session.Captured) error {
	return c.out.Each(func(to *output.Place) error {
		if to.Name == "pcapng" {
			return c.file(to).Packet(p)
		}
		_, err := fmt.Fprintln(to, p.Line)
		return err
	})
}

// End writes what a node lacks.
func (c *captureOutput) End(node string, dropped int) error {
	return c.out.Each(func(to *output.Place) error {
		if to.Name == "pcapng" {
			return c.file(to).End(node, dropped)
		}
		return nil
	})
}

func (c *captureOutput) file(to *output.Place) *session.Pcapng {
	if c.files[to] == nil {
		c.files[to] = session.NewPcapng(to, c.filter)
	}
	return c.files[to]
}
