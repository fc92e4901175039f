package ask

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// serviceDestinationCheck binds service.ServiceDestination to the function that runs it.
var serviceDestinationCheck = answers.To(service.ServiceDestination, serviceDestination)

// followed is a service whose connections are followed.
type followed struct {
	kind, name, network string
	to                  netip.AddrPort
	endpoints           []netip.AddrPort
}

// proto is the number of its protocol.
func (f followed) proto() int {
	if f.network == "udp" {
		return node.ProtoUDP
	}
	return node.ProtoTCP
}

// follower has what is read once for all services.
type follower struct {
	*probe.Pass
	links []kernel.Link
	rules func() ([]kernel.PacketRule, error)
	name  string // which the cluster's DNS has to know
}

func serviceDestination(ctx context.Context, p *probe.Pass) {
	links, err := kernel.Links()
	if err != nil {
		p.Report(node.Unseen(err))
		return
	}
	if node.EBPF(p, links) {
		p.Report(probe.Found(probe.Skip, "the data plane is eBPF, which translates services before connections are tracked"))
		return
	}
	all := followable(p)
	if len(all) == 0 {
		p.Report(node.Gap(p, probe.KindDatastore, "no service with ready endpoints is known"))
		return
	}
	domain, _ := node.DomainOf(node.ReadKubelet(p.Host))
	f := follower{Pass: p, links: links, name: "kubernetes.default.svc." + domain + ".",
		rules: sync.OnceValues(func() ([]kernel.PacketRule, error) { return kernel.Diversions(p.Host) })}
	node.Each(all, func(s followed) {
		p.Report(f.follow(ctx, s).On(fmt.Sprintf("%s %s %s", s.name, s.to, s.network)).With(probe.FactFamily,
			node.Family(s.to.Addr())).
			With(service.FactService, s.to.String()).With(probe.FactTransport, s.network))
	})
}

// followable are the services of the plan, with their endpoints.
func followable(p *probe.Pass) []followed {
	var out []followed
	add := func(t probe.Target, name string, endpoints []netip.AddrPort, networks ...string) {
		for _, network := range networks {
			f := followed{t.Kind, name, network, netip.AddrPortFrom(t.Addr.Unmap(), uint16(t.Port)), endpoints}
			same := func(o followed) bool { return o.to == f.to && o.network == network }
			if t.Addr.IsValid() && !slices.ContainsFunc(out, same) {
				out = append(out, f)
			}
		}
	}
	for _, t := range p.Of(probe.KindDatastore, probe.KindDNS) {
		switch {
		case t.Name != "service":
		case t.Kind == probe.KindDatastore:
			add(t, "default/kubernetes", endpointsOf(p, t.Kind), "tcp")
		default:
			add(t, "DNS", endpointsOf(p, t.Kind), "udp", "tcp")
		}
	}
	listed := map[string][]netip.AddrPort{}
	for _, t := range p.Of(probe.KindService) {
		for text := range strings.SplitSeq(t.Attrs[probe.AttrEndpoints], ",") {
			if at, err := netip.ParseAddrPort(text); err == nil {
				listed[t.Name] = append(listed[t.Name], at)
			}
		}
		add(t, t.Name, listed[t.Name], "tcp")
	}
	for _, t := range p.Of(probe.KindNodePort) { // of other nodes' ports those nodes keep the entries
		if t.Node == p.Host.Node {
			add(t, t.Name, listed[t.Name], "tcp")
		}
	}
	return out
}

// endpointsOf are the endpoints that the plan has beside a service of a kind, ready or not: kube-proxy uses those that
// are about to end where there are no others.
func endpointsOf(p *probe.Pass, kind string) []netip.AddrPort {
	var out []netip.AddrPort
	for _, t := range p.Of(kind) {
		if strings.HasPrefix(t.Name, "endpoint") && t.Addr.IsValid() {
			out = append(out, netip.AddrPortFrom(t.Addr.Unmap(), uint16(t.Port)))
		}
	}
	return out
}

// follow opens a connection, and judges where the kernel sent it.
func (f follower) follow(ctx context.Context, s followed) probe.Result {
	sent, accepted, err := f.sent(ctx, s)
	switch {
	case errors.Is(err, kernel.ErrNotTracked) && !accepted, errors.Is(err, errNotSent):
		return f.unsent(s, err)
	case errors.Is(err, kernel.ErrNotTracked), errors.Is(err, fs.ErrNotExist): // evidence of nothing
		return probe.Found(probe.Info, "where connections to %s go is not known: %v", s.to, err)
	case err != nil:
		if r, cut := node.CutShort(ctx, err); cut {
			return r
		}
		return node.Unseen(err)
	case slices.Contains(s.endpoints, sent):
		return probe.Found(probe.OK, "%s leads to %s, an endpoint of the service", s.to, sent).With(service.FactSentTo, sent.String())
	case sent == s.to:
		return f.untranslated(ctx, s, accepted)
	case len(s.endpoints) == 0:
		return probe.Found(probe.Info, "%s leads to %s; the endpoints of the service are not known", s.to, sent).
			With(service.FactSentTo, sent.String())
	}
	rules, unread := f.rules()
	found := probe.Found(probe.Info, "%s leads to %s, which is no endpoint of the service (%s)", s.to, sent, ports(s.endpoints)).
		With(service.FactSentTo, sent.String())
	rules = slices.DeleteFunc(slices.Clone(rules), func(rule kernel.PacketRule) bool { return !f.reaches(rule, s) })
	rule, known := culprit(rules, s, sent, f.isOwn(sent.Addr()))
	switch {
	case known:
		return f.judged(ctx, blamed(found, rule), s)
	case unread != nil:
		found.Saw += fmt.Sprintf("; not all rules could be read: %v", unread)
	default:
		found.Saw += "; no rule of others sends it there"
		found = found.With(probe.FactReason, service.ReasonNoEndpoint)
	}
	return found
}

// blamed adds the rule that sends connections elsewhere.
func blamed(r probe.Result, rule kernel.PacketRule) probe.Result {
	text := probe.OneLine(rule.TableFamily + " " + rule.String())
	r.Saw += fmt.Sprintf("; %s rule: %s", rule.Wall, text)
	return r.With(probe.FactRule, text).With(service.FactWall, rule.Wall).With(service.FactMeans, rule.Does).
		With(probe.FactRawTable, probe.OneLine(rule.TableFamily+" "+rule.Table)).With(probe.FactChain,
		probe.OneLine(rule.Chain)).
		With(service.FactHandle, rule.Handle)
}

// judged gives a service that is sent elsewhere its status, by what answers there.
func (f follower) judged(ctx context.Context, r probe.Result, s followed) probe.Result {
	if f.serves(ctx, s) {
		r.Saw += "; what answers there serves clients of the service"
		return r
	}
	r.Status = s.lost()
	return r
}

// lost is how bad it is that a service's connections go elsewhere. A service that is not the cluster's own may be a
// tenant's, who can change its endpoints.
func (f followed) lost() probe.Status {
	if f.kind == probe.KindDatastore || f.kind == probe.KindDNS {
		return probe.Fail
	}
	return probe.Warn
}

// untranslated is a connection whose packets keep the service's address: no rule matched them, or they stay on this
// node.
func (f follower) untranslated(ctx context.Context, s followed, accepted bool) probe.Result {
	r := probe.Found(probe.Info, "packets for %s leave with that address: no rule of kube-proxy translates it", s.to)
	if i := slices.IndexFunc(f.links, func(l kernel.Link) bool { return l.Has(s.to.Addr()) }); i >= 0 {
		r.Saw = fmt.Sprintf("packets for %s stay on this node: its interface %s has that address", s.to, f.links[i].Name)
		return r
	}
	_, entry, err := kernel.RouteOf(kernel.Packet{To: s.to.Addr()})
	if err == nil && entry != nil && entry.Type == kernel.Local {
		text := probe.OneLine(entry.String())
		r.Saw = fmt.Sprintf("%s leads to this node itself, which is no endpoint of the service; route: %s", s.to, text)
		return f.judged(ctx, r, s).With(probe.FactRule, text).With(service.FactMeans, service.MeansRoute).
			With(service.FactSentTo, s.to.String())
	}
	if !accepted {
		return r.With(probe.FactReason, service.ReasonUntranslated)
	}
	rules, _ := f.rules()
	i := slices.IndexFunc(rules, func(rule kernel.PacketRule) bool {
		return rule.Does == kernel.DoesTProxy && specific(rule) && rule.Matches(s.to, s.proto())
	})
	if i < 0 {
		r.Saw += ", and something answers"
		return r
	}
	r.Saw = fmt.Sprintf("%s leads to a proxy on this node, port %d", s.to, rules[i].Sends.Port())
	return f.judged(ctx, blamed(r.With(service.FactSentTo, sendsTo(rules[i])), rules[i]), s)
}

// unsent judges a connection that did not leave this node, so that the kernel tracks none. Where the node has a route
// to the service's address and to its endpoints, a rule sends it to where no route leads: a hostPort whose pod is gone,
// to an address in the node's own block, which is a blackhole then.
func (f follower) unsent(s followed, err error) probe.Result {
	r := probe.Found(probe.Info, "where connections to %s go is not known: %v", s.to, err)
	if len(s.endpoints) == 0 || !routable(s.to) || !slices.ContainsFunc(s.endpoints, routable) {
		return r
	}
	rules, _ := f.rules()
	i := slices.IndexFunc(rules, func(rule kernel.PacketRule) bool {
		return rule.Does == kernel.DoesDNAT && !rule.Partly && specific(rule) && rule.Matches(s.to, s.proto()) &&
			rule.Sends.Addr().IsValid() && !routable(rule.Sends) && f.reaches(rule, s)
	})
	if i < 0 {
		return r
	}
	to := rules[i].Sends
	r.Saw = fmt.Sprintf("%s leads to %s, to which this node has no route, and which is no endpoint of the service (%s)",
		s.to, to, ports(s.endpoints))
	r.Status = s.lost()
	return blamed(r.With(service.FactSentTo, to.String()), rules[i])
}

// sendsTo is where a rule sends packets: an address and port, or ":PORT" of this node.
func sendsTo(r kernel.PacketRule) string {
	if !r.Sends.Addr().IsValid() {
		return fmt.Sprintf(":%d", r.Sends.Port())
	}
	return r.Sends.String()
}

// routable reports whether this node has a route to an address.
func routable(to netip.AddrPort) bool {
	way, _, err := kernel.RouteOf(kernel.Packet{To: to.Addr()})
	return err == nil && way.Type != kernel.Blackhole
}

// isOwn reports whether an address is one of this node's.
func (f follower) isOwn(a netip.Addr) bool {
	return a.IsLoopback() || slices.ContainsFunc(f.links, func(l kernel.Link) bool { return l.Has(a) })
}

// reaches reports whether packets for a service can come to a rule. Those for a hostPort are for this node's own
// addresses: the chain that leads to them says so (dst-type LOCAL), and theirs has the port alone.
func (f follower) reaches(rule kernel.PacketRule, s followed) bool {
	return !kernel.OfHostPort(rule.Table, rule.Chain) || f.isOwn(s.to.Addr())
}

// specific reports whether a rule names an address or a port: one that does not may be for other packets.
func specific(r kernel.PacketRule) bool { return r.To.IsValid() || r.ToPorts != [2]int{} }

// culprit is the rule that sends a service's connections to where they went: first one whose destination is that and
// that has no conditions beside those understood, last one that may choose among several destinations.
func culprit(rules []kernel.PacketRule, s followed, sent netip.AddrPort, own bool) (kernel.PacketRule, bool) {
	rank := func(r kernel.PacketRule) int {
		port := r.Sends.Port()
		if port == 0 {
			port = s.to.Port()
		}
		there := r.Sends.Addr() == sent.Addr() && port == sent.Port()
		switch {
		case !r.Matches(s.to, s.proto()) || r.FromPorts != [2]int{} || r.Does == kernel.DoesTProxy:
			return 0
		case r.Does == kernel.DoesRedirect:
			there = own && port == sent.Port()
		case !r.Sends.Addr().IsValid() && specific(r):
			return 1
		}
		switch {
		case !there:
			return 0
		case r.Partly:
			return 2
		}
		return 3
	}
	best, found := kernel.PacketRule{}, 0
	for _, r := range rules {
		if is := rank(r); is > found {
			best, found = r, is
		}
	}
	return best, found > 0
}

// ports are the first few of some addresses with ports.
func ports(all []netip.AddrPort) string {
	var out []string
	for _, a := range all {
		out = append(out, a.String())
	}
	return node.Some(out)
}
