package ask

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/autodetect"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// ipAutodetectCheck binds link.IPAutodetect to the function that runs it.
var ipAutodetectCheck = answers.To(link.IPAutodetect, ipAutodetect)

// Facts of ip-autodetect.
const factKind probe.Fact = "kind" // type of the interface: device, bridge, ...

func ipAutodetect(ctx context.Context, p *probe.Pass) {
	set := p.Of(probe.KindCalico)
	if len(set) == 0 {
		p.Report(node.Gap(p, probe.KindCalico, "Calico's configuration on this node is unknown"))
		return
	}
	all, err := kernel.Links()
	if err != nil {
		p.Report(node.Unseen(err))
		return
	}
	self := autodetect.Node{Version: set[0].Name, Reach: reachableFrom(ctx)}
	for _, d := range all {
		self.Interfaces = append(self.Interfaces,
			autodetect.Interface{Index: d.Index, Name: d.Name, Kind: d.Kind, Addrs: d.Addrs})
	}
	for text := range strings.SplitSeq(set[0].Attrs[probe.AttrInternal], ",") {
		if a, err := netip.ParseAddr(text); err == nil {
			self.Internal = append(self.Internal, a)
		}
	}
	for family, keys := range map[int][2]string{4: {probe.AttrIP, probe.AttrMethod},
		6: {probe.AttrIP6, probe.AttrMethod6}} {
		ip, method := set[0].Attrs[keys[0]], set[0].Attrs[keys[1]]
		if method == "" {
			method = autodetect.First
		}
		r := judgeDetection(p, self, family, ip, method)
		p.Report(r.On(fmt.Sprintf("IPv%d", family)).With(probe.FactFamily, family).With(link.FactMethod, method).
			With(link.FactCalico, self.Version))
	}
}

// registeredAddress returns the address in a family that Calico registered for this node, or the zero value.
func registeredAddress(p *probe.Pass, family int) (mine netip.Addr) {
	for _, t := range p.Of(probe.KindSelf) {
		if t.Addr.Is4() == (family == 4) {
			mine = t.Addr
		}
	}
	return mine
}

// judgeDetection evaluates one address family. setting is the value of IP or IP6.
func judgeDetection(p *probe.Pass, self autodetect.Node, family int, setting, method string) probe.Result {
	mine := registeredAddress(p, family)
	switch {
	case node.Named(p, probe.KindBackend) == "none":
		return probe.Found(probe.Skip, "Calico's networking backend here is none, so it does not detect an address")
	case setting == "none", setting == "" && family == 6: // Calico detects IPv6 only on request
		return probe.Found(probe.Skip, "Calico is configured not to detect an IPv%d address here", family)
	case setting != "" && setting != "autodetect":
		return probe.Found(probe.Info, "the address is configured, not detected: %s", setting)
	case setting == "" && mine.IsValid():
		return probe.Found(probe.Info,
			"Calico keeps the registered %s: it detects an address only if none is registered", mine)
	case strings.Contains(method, "$(") || strings.HasPrefix(method, "("):
		return probe.Found(probe.Unknown, "the method is %s, but its value on this node is unknown", method)
	case !autodetect.Knows(self.Version, method):
		return probe.Found(probe.Fail, "Calico %s lacks the method %s (added in %s): calico-node exits at startup",
			self.Version, method, autodetect.Since(method))
	}
	choice, err := self.Detect(method, family)
	others, lines := alternatives(p, self, family, method)
	var r probe.Result
	switch picked := choice.Addr.Addr(); {
	case errors.Is(err, autodetect.ErrMethod):
		r = probe.Found(probe.Fail, "%v: calico-node exits at startup", err)
	case err != nil && mine.IsValid():
		r = probe.Found(probe.Warn, "%s finds no IPv%d address (%v), so Calico keeps the registered %s", method, family,
			err, mine)
	case err != nil:
		r = probe.Found(probe.Fail, "%s finds no IPv%d address (%v), and none is registered", method, family, err)
	case !mine.IsValid():
		r = probe.Found(probe.Info, "%s picks %s, but no address is registered yet", method, choice)
	case picked != mine:
		when := "at calico-node's next start"
		if autodetect.Redetects(self.Version) {
			when = "within a minute, or at calico-node's next start"
		}
		r = probe.Found(probe.Fail, "%s picks %s, but %s is registered: the address will change %s", method, choice, mine, when)
	case len(self.Internal) > 0 && !slices.Contains(self.Internal, picked):
		r = probe.Found(probe.Info, "%s picks %s, as registered; it is not the node's InternalIP", method, choice)
	default:
		r = probe.Found(probe.OK, "%s picks %s, as registered", method, choice)
	}
	if err == nil {
		r = r.With(link.FactPicked, choice.Addr.Addr().String()).With(probe.FactInterface, choice.Interface).
			With(factKind, choice.Kind)
	}
	if mine.IsValid() {
		holder := interfaceWith(self.Interfaces, mine)
		r = r.With(probe.FactRegistered, mine.String()).With(link.FactKeptOn, holder.Name).
			With(link.FactKeptOnKind, holder.Kind)
	}
	if said := servedNodes(choice.Interface, devicesToNodes(p, family)); err == nil && r.Status != probe.OK {
		r.Saw += said
	}
	return r.With(link.FactAlternatives, others).Because(lines...)
}

// interfaceWith returns the interface that has the given address, or the zero value.
func interfaceWith(all []autodetect.Interface, a netip.Addr) autodetect.Interface {
	for _, i := range all {
		if slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool { return p.Addr() == a }) {
			return i
		}
	}
	return autodetect.Interface{}
}

// alternatives returns what the other methods would pick: the address that reaches a peer, an
// address in the peers' networks, and the Node's own address.
func alternatives(p *probe.Pass, self autodetect.Node, family int, own string) (map[string]string, []string) {
	methods := []string{autodetect.First, "kubernetes-internal-ip"}
	for _, t := range p.Of(probe.KindNode) {
		if t.Addr.Is4() != (family == 4) {
			continue
		}
		methods = append(methods, "can-reach="+t.Addr.String())
		for _, i := range self.Interfaces {
			for _, prefix := range i.Addrs {
				if prefix.Contains(t.Addr) && !prefix.IsSingleIP() {
					methods = append(methods, "cidr="+prefix.Masked().String(), "interface=^"+i.Name+"$")
				}
			}
		}
	}
	devices := devicesToNodes(p, family)
	picks, lines := map[string]string{}, []string{}
	for _, m := range methods {
		if _, seen := picks[m]; seen || m == own || !autodetect.Knows(self.Version, m) ||
			len(picks) == maxAlternatives {
			continue
		}
		picks[m] = "nothing"
		said := "nothing"
		if c, err := self.Detect(m, family); err == nil {
			picks[m] = c.String()
			said = c.String() + servedNodes(c.Interface, devices)
		}
		lines = append(lines, m+" would pick "+said)
	}
	return picks, lines
}

// devicesToNodes returns the interface that leads to each of the other nodes' addresses, "" without
// a route.
func devicesToNodes(p *probe.Pass, f int) []string {
	var out []string
	for _, t := range node.SplitByFamily(p.Of(probe.KindNode))[f] {
		way, err := node.Lookup(t.Addr)
		if err != nil && node.Unroutable(err).Status != probe.Fail {
			return nil // the kernel cannot be queried
		}
		out = append(out, way.Device)
	}
	return out
}

// servedNodes describes how many of the other nodes the kernel reaches through an interface.
func servedNodes(name string, devices []string) string {
	if len(devices) == 0 {
		return ""
	}
	n := 0
	for _, device := range devices {
		if device == name {
			n++
		}
	}
	return fmt.Sprintf("; %d of %d other nodes are reached through %s", n, len(devices), name)
}

// maxAlternatives limits the list so that one result fits in a line of the stream.
const maxAlternatives = 8

// reachableFrom picks a source address in the same way as Calico. It connects a UDP socket, which does not send
// anything, and reads the socket's local address.
func reachableFrom(ctx context.Context) func(string, int) (netip.Addr, error) {
	return func(destination string, family int) (netip.Addr, error) {
		one, _, cancel := node.Part(ctx, 2)
		defer cancel()
		var d net.Dialer
		c, err := d.DialContext(one, fmt.Sprintf("udp%d", family), net.JoinHostPort(destination, "80"))
		if err != nil {
			return netip.Addr{}, err
		}
		defer c.Close()
		at, err := netip.ParseAddrPort(c.LocalAddr().String())
		return at.Addr(), err
	}
}
