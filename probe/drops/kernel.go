package drops

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// routed is the path of the packets as the kernel reports it.
type routed struct {
	device string
	next   netip.Addr
	deaths []Death
}

// routeOf looks up the route in the sender's namespace. If the sender is a pod, it also looks up the route on
// the node, which forwards the packets.
func routeOf(q Question) routed {
	var out routed
	lookups := []struct {
		in     Space
		packet kernel.Packet
	}{{q.From, kernel.Packet{To: q.To}}}
	if i := slices.IndexFunc(q.Count, func(s Space) bool { return s.Name == Node }); q.Pod.IsValid() && i >= 0 {
		if way, _, err := lookUp(q.Count[i], kernel.Packet{To: q.Pod}); err == nil && len(way.Hops) > 0 {
			lookups = append(lookups, struct {
				in     Space
				packet kernel.Packet
			}{q.Count[i], kernel.Packet{To: q.To, From: q.Pod, In: way.Hops[0].Device}})
		}
	}
	for _, a := range lookups {
		way, matched, err := lookUp(a.in, a.packet)
		out.device, out.next = "", q.To
		switch {
		case err != nil:
			out.deaths = append(out.deaths, refusedBy(a.in, a.packet, err)...)
		case way.TypeName() != "" && way.Type != kernel.Local:
			d := Death{Where: a.in.Name, Kind: KindRoute, By: byKernel, Reason: way.TypeName(),
				Place: "a route drops them: " + way.String()}
			if matched != nil {
				d.Place = "a route drops them: " + matched.String()
			}
			out.deaths = append(out.deaths, d)
		case len(way.Hops) > 0 && way.Type != kernel.Local:
			out.device = way.Hops[0].Device
			if way.Hops[0].Gateway.IsValid() {
				out.next = way.Hops[0].Gateway
			}
			out.deaths = append(out.deaths, atLink(a.in, out.device, out.next)...)
		}
	}
	if q.From.Name != Node && len(lookups) == 1 {
		out.device = "" // the pod's device, not the device through which packets leave the node
	}
	return out
}

// lookUp looks up a route in a namespace.
func lookUp(in Space, p kernel.Packet) (way kernel.Route, matched *kernel.Route, err error) {
	err = in.Do(func(*probe.Host) error {
		way, matched, err = kernel.RouteOf(p)
		return err
	})
	return way, matched, err
}

// refusals maps the errors that the kernel returns instead of a route to their meanings.
var refusals = []struct {
	errno syscall.Errno
	kind  string
	says  string
}{
	{syscall.ENETUNREACH, KindRoute, "no route to %s"},
	{syscall.EHOSTUNREACH, KindRoute, "an unreachable route rejects packets to %s"},
	{syscall.EACCES, KindRoute, "a prohibit route rejects packets to %s"},
	{syscall.EXDEV, KindRPFilter, "the source of packets to %s is not expected on their incoming interface (rp_filter)"},
}

func refusedBy(in Space, p kernel.Packet, err error) []Death {
	if errors.Is(err, syscall.EHOSTUNREACH) && p.In != "" {
		name := fmt.Sprintf("net/ipv%d/conf/%s/forwarding", family(p.To), p.In)
		off := false
		_ = in.Do(func(h *probe.Host) error { // a setting that cannot be read proves nothing
			on, err := kernel.Sysctl(h, name)
			off = err == nil && on == 0
			return err
		})
		if off {
			return []Death{{Where: in.Name, Kind: kindForwarding, By: byKernel, Reason: name,
				Place: fmt.Sprintf("packets that arrive on %s are not forwarded (%s is 0)", p.In, strings.ReplaceAll(name, "/", "."))}}
		}
	}
	var invalid *kernel.Invalid
	if errors.As(err, &invalid) {
		return []Death{{Where: in.Name, Kind: KindRoute, By: byKernel, Reason: string(invalid.Means),
			Place: fmt.Sprintf("packets to %s: %s", p.To, invalid.Explain())}}
	}
	for _, r := range refusals {
		if errors.Is(err, r.errno) {
			return []Death{{Where: in.Name, Kind: r.kind, By: byKernel, Reason: r.errno.Error(),
				Place: fmt.Sprintf(r.says, p.To)}}
		}
	}
	return nil
}

// atLink returns the problems with the outgoing interface and the next hop.
func atLink(in Space, device string, next netip.Addr) []Death {
	var out []Death
	_ = in.Do(func(*probe.Host) error { // a link that cannot be read proves nothing
		link, err := kernel.LinkNamed(device)
		if err != nil {
			return err
		}
		if !link.Up || !link.Carrier {
			state := "has no carrier: its other end is down or gone"
			if !link.Up {
				state = "is down"
			}
			out = append(out, Death{Where: in.Name, Kind: KindLink, By: byKernel, Reason: link.State,
				Place: fmt.Sprintf("outgoing interface %s %s", device, state)})
		}
		neighbours, _, err := kernel.NeighboursOn(link, family(next))
		for _, n := range neighbours {
			if n.Addr == next && (n.State == "failed" || n.State == "incomplete") {
				protocol := map[int]string{4: "ARP", 6: "NDP"}[family(next)]
				out = append(out, Death{Where: in.Name, Kind: KindNeighbour, By: byKernel, Reason: n.State,
					Place: fmt.Sprintf("the next hop %s does not answer %s on %s", next, protocol, device)})
			}
		}
		return err
	})
	return out
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 4
	}
	return 6
}

// kernelEvidence returns the evidence that the kernel itself provides: send errors, and problems on the path.
func kernelEvidence(q Question, route routed, sent Sent) []Death {
	d := Death{Where: q.From.Name, By: byKernel, Count: sent.Lost, Reason: sent.Refused}
	switch sent.Refused {
	case "denied":
		d.Kind, d.Place = KindFirewall, "a firewall rejects them as they leave"
	case "too-big":
		d.Kind, d.Place = kindMTU, fmt.Sprintf("%s are larger than the MTU of the outgoing interface", q.Shape)
	case "net-unreachable", "blackhole", "no-address":
		d.Kind, d.Place = KindRoute, "the kernel has no route for them ("+sent.Refused+")"
	default:
		return route.deaths
	}
	// Look up the route first, because a prohibit route returns the same error as a firewall.
	says := func(d Death) bool { return d.Kind == KindRoute }
	if d.Kind == KindRoute && len(route.deaths) > 0 || slices.ContainsFunc(route.deaths, says) {
		return route.deaths
	}
	return append(route.deaths, d)
}
