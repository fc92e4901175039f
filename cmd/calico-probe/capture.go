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

const captureExample = `  # show how far pings get on the node, and how far a TCP connection gets
  calico-probe capture --node worker-3 --own 10.244.7.9
  calico-probe capture --node worker-3 --own 10.244.7.9:80

  # show whether pings arrive at another node, with both ends in one file
  calico-probe capture --node worker-3 --peer worker-7 --own 10.244.7.9 -w both.pcapng

  # show 30 seconds of BGP traffic with one peer in Wireshark
  calico-probe capture --node worker-3 --seconds 30 10.0.0.7:179 -w - | wireshark -k -i -`

// captureSpare is the extra time, beyond the capture's duration, for placing and removing probes.
const captureSpare = 90 * time.Second

// captureFlags are the flags that become the tool's arguments.
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
		Use: "capture --node NODE [HOST | HOST:PORT | :PORT]", Short: "Capture packets on one node, or on two nodes at once",
		Example: captureExample,
		Long: `Captures packets of a host and a port on every interface of the node. With --own, it captures
only packets that the probe itself sends. It prints a line for each packet, or writes a file for
tcpdump and Wireshark. Only headers leave the node, unless you set --payload. --peer captures
the same packets on a second node. With --own, a packet that left one node but did not arrive at
the other was lost between them. In the file, interfaces are named NODE INTERFACE. Each node
uses its own clock; the file records the difference.

HOST is an address, a node name, or a name that the node can resolve. --own recognizes its
packets even after NAT. Packets of HOST are missed after NAT, because their addresses change.

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
	nodeFlagNamed(f, "peer", &c.Peer, "second node on which to capture the same packets at the same time")
	f.StringVar(&c.Pod, "pod", "", "capture in the network namespace of this pod on the node, NAMESPACE/NAME")
	f.BoolVar(&c.own, "own", false, "send five pings to HOST, or open one TCP connection to its PORT, "+
		"and capture only those packets")
	f.StringVarP(&c.device, "interface", "i", "", "capture only on this interface")
	f.StringVarP(&c.protocol, "protocol", "p", "", "capture only this protocol: tcp, udp, sctp or icmp")
	f.IntVar(&c.seconds, "seconds", 10, "capture for this many seconds, at most 300")
	f.IntVar(&c.packets, "packets", 1000, "stop after this many packets per node, at most 20000")
	f.BoolVar(&c.payload, "payload", false, "capture whole packets instead of only headers, "+
		"including secrets in the traffic")
	out.Flag(cmd, []report.Format{{Name: "lines", For: "for people: a line for each packet"},
		{Name: "pcapng", For: "for tcpdump and Wireshark", Bytes: true}})
	f.StringVarP(&c.file, "write", "w", "", "same as -o pcapng=FILE; - is stdout")
	o.reaching(cmd)
	f.Lookup("timeout").DefValue, o.Timeout = "0", 0
	f.Lookup("timeout").Usage = "time limit of the whole run; 0 = --seconds plus 90s"
	a.connecting(cmd)
	completions(cmd, map[string]completer{"node": o.nodeNames, "peer": o.nodeNames, "via": viaMethods,
		"protocol": oneOf(capture.Protocols())})
	return cmd
}

// capture runs one capture with the settings of the flags.
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
	case !injector.AccessOf(o.Via).Covers(injector.TheNode):
		return ui.BadUsage("--via %s does not place a probe, but a capture needs one", o.Via)
	case c.Peer != "" && injector.AccessOf(o.Via).Here():
		return ui.BadUsage("--via local cannot reach another node: leave out --peer")
	case c.Peer != "" && c.Peer == o.Node:
		return ui.BadUsage("--peer %s is the same as --node: name a different node", c.Peer)
	case o.Timeout <= wanted.Limit:
		return ui.BadUsage("--timeout %v is too short for --seconds %d", o.Timeout, c.seconds)
	case c.Pod != "" && c.Peer != "" && !c.own:
		return ui.BadUsage("--pod applies only to the node of --node: to use --peer too, add --own")
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

// pcapngTo returns the -o value that is equivalent to -w FILE.
func pcapngTo(file string) string {
	if file == "-" {
		return "pcapng"
	}
	return "pcapng=" + file
}

// arguments returns the tool's arguments.
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

// captureOutput writes a capture to the outputs of the flags.
type captureOutput struct {
	out    *output.Set
	filter string
	files  map[*output.Place]*session.Pcapng
}

// Packet writes one packet.
func (c *captureOutput) Packet(p session.Captured) error {
	return c.out.Each(func(to *output.Place) error {
		if to.Name == "pcapng" {
			return c.file(to).Packet(p)
		}
		_, err := fmt.Fprintln(to, p.Line)
		return err
	})
}

// End reports which packets are missing from a node's capture.
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
