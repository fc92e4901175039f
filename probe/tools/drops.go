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

// Drops finds where packets are lost.
var Drops = &probe.Tool{
	Name: "drops", Usage: "[-n SECONDS] | [--trace] HOST | POD | HOST:PORT",
	Short: "where packets die: the rule, queue, route or counter",
	Doc: `With a target, it sends about 40 pings, or opens as many TCP connections if you give a
PORT, in bursts with pauses between them. It reports the counter that grew by the number of
lost packets, and did not grow in the pauses: a rule of nftables or of either iptables with
its Calico policy, connection tracking, a queue (tc), IPsec, a listening socket, or an
interface. It also reports the kernel's own answer about such packets: a route that
drops them, a neighbour that does not answer. 'in POD drops ...' sends from the pod, and
reads counters in the pod and on the node.
Without a target it sends nothing, and shows all drops in that time, of any packet.

  -n SECONDS   how long to watch, 5 by default
  HOST         an address, a node's name, or another name that the node can resolve
  POD          NAMESPACE/NAME of a pod on this node, or on another node that 'run' checks
  HOST:PORT    TCP; IPv6 in brackets: [fd00::1]:443
  --trace      loads three small eBPF programs into the kernel. They report where each of
               our packets left, came in or was dropped, and why, in every network
               namespace of the node; the rule comes from its counter. They see every
               packet that an interface receives or sends, and every dropped packet, and
               compare it with ours in the kernel. They record no other packet, change
               nothing, and are removed when the command ends for any reason. With the
               access method pod this runs in its own pod, with the capabilities BPF and
               PERFMON. Needs Linux 5.17 or later with BTF. It does not see the NIC, the
               network between nodes, or packets that the kernel does not count as dropped

  drops
  drops -n 30
  drops 10.244.7.9
  drops worker-4:10250
  drops default/web-7c9d:8080
  drops --trace 10.244.7.9

Fails when packets are lost. It creates no rule, and without --trace loads no program. It
cannot see a rule without a counter, and cannot name the place of a loss beyond the node.`,
	Check: check(ParseDrops),
}

// DropsArgs holds the arguments of drops.
type DropsArgs struct {
	Watch time.Duration
	Host  string     // a name, "" = an address was given, or nothing is sent
	Addr  netip.Addr // invalid = nothing is sent, or the name is not resolved yet
	Port  uint16
	Trace bool
}

// ParseDrops parses the arguments of drops.
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
		return d, errors.New("-n works only without a target: bursts have a fixed length")
	case len(rest) == 0 && d.Trace:
		return d, errors.New("--trace takes a target to send to: drops --trace 10.244.7.9")
	case len(rest) == 0:
		d.Watch = cmp.Or(d.Watch, 5*time.Second)
		return d, within("-n", d.Watch, time.Second, 10*time.Minute)
	}
	err = d.aim(rest[0])
	return d, err
}

// aim parses the target.
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
		return fmt.Errorf("drops takes no link-local address, because each interface has its own: %s", addr)
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

// Traces reports whether a call loads programs into the kernel. The probe then needs more rights.
func Traces(c probe.Call) bool {
	if c.Tool != Drops.Name {
		return false
	}
	d, err := ParseDrops(c.Args)
	return err == nil && d.Trace
}

// TraceCapabilities returns the capabilities, without CAP_, that a probe needs for such a call.
func TraceCapabilities(c probe.Call) []string {
	// BPF and PERFMON are needed to load the programs, NET_RAW to send pings, and NET_ADMIN to read the rules'
	// counters. SYS_PTRACE is needed to name other network namespaces by their processes.
	needs := []string{"BPF", "NET_ADMIN", "NET_RAW", "PERFMON", "SYS_PTRACE"}
	if c.From != nil {
		needs = append(needs, "SYS_ADMIN") // to enter a pod's network namespace
	}
	return needs
}
