package tools

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Drops finds where packets die.
var Drops = &probe.Tool{
	Name: "drops", Usage: "[-n SECONDS] | [--trace] HOST | POD | HOST:PORT",
	Short: "where packets die: the rule, queue, route or counter",
	Doc: `With a target it sends some 40 pings to it, or opens as many TCP connections where a PORT
is named, in bursts with pauses between, and names the counter that grew by as many
as were lost, and not in the pauses: a rule of nftables or of either iptables, with
the policy of Calico's it belongs to; connection tracking, a queue (tc), IPsec, a socket
that listens, an interface. What the kernel itself says of such packets stands there too:
a route that drops, a neighbour that does not answer. 'in POD drops ...' sends out of
the pod, and counts in it and on the node.
Without a target nothing is sent: it shows what is dropped meanwhile, of all packets.

  -n SECONDS   how long to watch, 5 by default
  HOST         an address, a node's name, or another that the node can look up
  POD          NAMESPACE/NAME of a pod, of this node or one that 'run' asks
  HOST:PORT    TCP; IPv6 in brackets: [fd00::1]:443
  --trace      loads three small programs into the kernel (eBPF) and has it say itself where
               each of our packets left, came in, and was dropped, and why, in every network
               namespace of the node; the rule by its counter. They see every packet that
               an interface takes or sends or that is dropped, compare it with ours there,
               note nothing of others, change nothing, and go when the command ends, however
               it does. By pod there is a pod of its own for it, with the capabilities BPF
               and PERFMON. Takes Linux 5.17 or later with BTF. Not seen are the NIC and the
               network between nodes, nor what the kernel does not call a drop

  drops
  drops -n 30
  drops 10.244.7.9
  drops worker-4:10250
  drops default/web-7c9d:8080
  drops --trace 10.244.7.9

Fails when packets are lost. No rule is made, and without --trace no program is loaded; a
rule without a counter is not seen, and what is lost beyond the node is only said to be so.`,
	Check: check(ParseDrops),
}

// DropsArgs are the arguments of drops.
type DropsArgs struct {
	Watch time.Duration
	Host  string     // a name, "" = there is an address, or nothing is sent
	Addr  netip.Addr // invalid = nothing is sent, or a name that is not looked up yet
	Port  uint16
	Trace bool
}

// ParseDrops reads the arguments of drops.
func ParseDrops(args []string) (*DropsArgs, error) {
	d := &DropsArgs{}
	f := options("drops")
	f.BoolVar(&d.Trace, "trace", false, "")
	seconds(f, &d.Watch, "n", 0)
	rest, err := words(f, args)
	switch {
	case err != nil:
		return d, err
	case len(rest) > 1:
		return d, errors.New("drops takes one target: drops 10.244.7.9")
	case len(rest) == 1 && d.Watch != 0:
		return d, errors.New("-n goes without a target: bursts take as long as they take")
	case len(rest) == 0 && d.Trace:
		return d, errors.New("--trace takes a target, to which it sends: drops --trace 10.244.7.9")
	case len(rest) == 0:
		d.Watch = cmp.Or(d.Watch, 5*time.Second)
		return d, within("-n", d.Watch, time.Second, 10*time.Minute)
	}
	err = d.aim(rest[0])
	return d, err
}

// aim takes the target apart.
func (d *DropsArgs) aim(text string) error {
	host := text
	if before, port, err := net.SplitHostPort(text); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return fmt.Errorf("drops takes HOST:PORT with a port from 1 to 65535, not %q", text)
		}
		host, d.Port = before, uint16(n)
	}
	addr, err := netip.ParseAddr(host)
	if d.Addr = addr.Unmap(); err == nil && d.Addr.Is6() && d.Addr.IsLinkLocalUnicast() {
		return fmt.Errorf("drops takes no link-local address, of which each interface has its own: %s", addr)
	} else if err == nil {
		return nil
	}
	namespace, name, isPod := strings.Cut(host, "/")
	if !isPod && !isName(host) ||
		isPod && (namespace == "" || name == "" || strings.ContainsAny(host, " :@")) {
		return fmt.Errorf("drops takes an address, a name or NAMESPACE/NAME of a pod, not %q", text)
	}
	d.Host = host
	return nil
}

// Traces tells whether a call loads programs into the kernel, for which a probe has to have the right.
func Traces(c probe.Call) bool {
	if c.Tool != Drops.Name {
		return false
	}
	d, err := ParseDrops(c.Args)
	return err == nil && d.Trace
}

// TraceCapabilities are those that a probe needs for such a call, without CAP_.
func TraceCapabilities(c probe.Call) []string {
	// BPF and PERFMON to load; beside them NET_RAW for echoes, NET_ADMIN for the rules' counters, SYS_PTRACE to name
	// other namespaces by who is there.
	needs := []string{"BPF", "NET_ADMIN", "NET_RAW", "PERFMON", "SYS_PTRACE"}
	if c.From != nil {
		needs = append(needs, "SYS_ADMIN") // to enter a pod's
	}
	return needs
}
