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

// followed is a Service whose connections are traced.
type followed struct {
	kind, name, network string
	to                  netip.AddrPort
	endpoints           []netip.AddrPort
}

// proto returns the number of the Service's protocol.
func (f followed) proto() int {
	if f.network == "udp" {
		return node.ProtoUDP
	}
	return node.ProtoTCP
}

// follower holds data that is read once for all Services.
type follower struct {
	*probe.Pass
	links   []kernel.Link
	rules   func() ([]kernel.PacketRule, error) // foreign rules that redirect packets
	proxied func() ([]kernel.PacketRule, error) // such rules of a kube-proxy in iptables mode
	mode    func() string                       // of the present kube-proxy
	name    string                              // a name that the cluster's DNS must resolve
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
	all := servicesToTrace(p)
	if len(all) == 0 {
		p.Report(node.Gap(p, probe.KindDatastore, "no Service with ready endpoints found"))
		return
	}
	domain, _ := node.DomainOf(node.ReadKubelet(p.Host))
	f := follower{Pass: p, links: links, name: "kubernetes.default.svc." + domain + ".",
		rules:   sync.OnceValues(func() ([]kernel.PacketRule, error) { return kernel.Diversions(p.Host, kernel.Foreign) }),
		proxied: sync.OnceValues(func() ([]kernel.PacketRule, error) { return kernel.Diversions(p.Host, kernel.OfServices) }),
		mode: sync.OnceValue(func() string {
			one, _, cancel := node.Part(ctx, 4)
			defer cancel()
			return proxyMode(one)
		})}
	node.Each(all, func(s followed) {
		p.Report(f.trace(ctx, s).On(fmt.Sprintf("%s %s %s", s.name, s.to, s.network)).With(probe.FactFamily,
			node.Family(s.to.Addr())).
			With(service.FactService, s.to.String()).With(probe.FactTransport, s.network))
	})
}

// servicesToTrace returns the Services in the plan, with their endpoints.
func servicesToTrace(p *probe.Pass) []followed {
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
		listed[t.Name] = append(listed[t.Name], t.Endpoints()...)
		add(t, t.Name, listed[t.Name], "tcp")
	}
	for _, t := range p.Of(probe.KindNodePort) { // entries for other nodes' ports are on those nodes
		if t.Node == p.Host.Node {
			add(t, t.Name, listed[t.Name], "tcp")
		}
	}
	return out
}

// endpointsOf returns a Service's endpoints of one kind from the plan, whether or not they are ready. If all
// endpoints are terminating, kube-proxy uses them.
func endpointsOf(p *probe.Pass, kind string) []netip.AddrPort {
	var out []netip.AddrPort
	for _, t := range p.Of(kind) {
		if strings.HasPrefix(t.Name, "endpoint") && t.Addr.IsValid() {
			out = append(out, netip.AddrPortFrom(t.Addr.Unmap(), uint16(t.Port)))
		}
	}
	return out
}

// trace opens a connection and evaluates where the kernel sent it.
func (f follower) trace(ctx context.Context, s followed) probe.Result {
	sent, accepted, err := f.sent(ctx, s)
	switch {
	case errors.Is(err, kernel.ErrNotTracked) && !accepted:
		r := f.judgeUnsent(s, err)
		if r.Status == probe.Info {
			r = r.With(probe.FactReason, service.ReasonUntracked)
		}
		return r
	case errors.Is(err, errNotSent):
		return f.judgeUnsent(s, err)
	case errors.Is(err, kernel.ErrNotTracked), errors.Is(err, fs.ErrNotExist): // this is not evidence
		return probe.Found(probe.Info, "unknown where connections to %s go: %v", s.to, err)
	case err != nil:
		if r, cut := node.CutShort(ctx, err); cut {
			return r
		}
		return node.Unseen(err)
	case slices.Contains(s.endpoints, sent):
		return probe.Found(probe.OK, "%s leads to %s, an endpoint of the service", s.to, sent).With(service.FactSentTo, sent.String())
	case sent == s.to:
		return f.judgeUntranslated(ctx, s, accepted)
	case len(s.endpoints) == 0:
		return probe.Found(probe.Info, "%s leads to %s; the endpoints of the service are unknown", s.to, sent).
			With(service.FactSentTo, sent.String())
	}
	rules, unread := f.rules()
	found := probe.Found(probe.Info, "%s leads to %s, which is not an endpoint of the service (%s)", s.to, sent, ports(s.endpoints)).
		With(service.FactSentTo, sent.String())
	rules = slices.DeleteFunc(slices.Clone(rules), func(rule kernel.PacketRule) bool { return !f.reaches(rule, s) })
	rule, known := redirectingRule(rules, s, sent, f.isOwn(sent.Addr()))
	if known {
		return f.judge(ctx, withRule(found, rule), s)
	}
	rule, known, err = f.leftBehind(s, sent)
	unread = errors.Join(unread, err)
	switch {
	case known:
		return f.judge(ctx, withRule(found, rule).With(service.FactMeans, service.MeansLeft), s)
	case unread != nil:
		found.Saw += fmt.Sprintf("; not all rules could be read: %v", unread)
	default:
		found.Saw += "; no foreign rule sends it there"
		found = found.With(probe.FactReason, service.ReasonNoEndpoint)
	}
	return found
}

// leftBehind returns the rule that redirects a Service's connections if an earlier kube-proxy left it behind. The
// present kube-proxy then uses nftables or IPVS, or writes its rules with the other kind of iptables.
func (f follower) leftBehind(s followed, sent netip.AddrPort) (kernel.PacketRule, bool, error) {
	rules, err := f.proxied()
	i := slices.IndexFunc(rules, func(r kernel.PacketRule) bool { return r.Sends == sent && r.Matches(s.to, s.proto()) })
	if i < 0 {
		return kernel.PacketRule{}, false, err
	}
	left := f.mode() == "ipvs"
	switch f.mode() {
	case "nftables":
		present, seen := published(f.Host, "nftables")
		left = seen && present.Status == probe.OK
	case "iptables":
		left = slices.ContainsFunc(rules, func(r kernel.PacketRule) bool {
			return r.Wall != rules[i].Wall && r.Matches(s.to, s.proto()) && slices.Contains(s.endpoints, r.Sends)
		})
	}
	return rules[i], left, err
}

// withRule adds the rule that redirects connections.
func withRule(r probe.Result, rule kernel.PacketRule) probe.Result {
	text := probe.OneLine(rule.TableFamily + " " + rule.String())
	r.Saw += fmt.Sprintf("; %s rule: %s", rule.Wall, text)
	return r.With(probe.FactRule, text).With(service.FactWall, rule.Wall).With(service.FactMeans, rule.Does).
		With(probe.FactRawTable, probe.OneLine(rule.TableFamily+" "+rule.Table)).With(probe.FactChain,
		probe.OneLine(rule.Chain)).
		With(service.FactHandle, rule.Handle)
}

// judge sets the status of a redirected Service. It depends on the server that answers at the destination.
func (f follower) judge(ctx context.Context, r probe.Result, s followed) probe.Result {
	if f.serves(ctx, s) {
		r.Saw += "; that server can serve the Service's clients"
		return r
	}
	r.Status = s.severity()
	return r
}

// severity returns the status for a redirected Service. Only the API and DNS are a fault, because any other Service
// may belong to a tenant, who can change its endpoints.
func (f followed) severity() probe.Status {
	if f.kind == probe.KindDatastore || f.kind == probe.KindDNS {
		return probe.Fail
	}
	return probe.Warn
}

// judgeUntranslated evaluates a connection whose packets still have the Service's address. Either no rule matched the
// packets, or they stay on this node.
func (f follower) judgeUntranslated(ctx context.Context, s followed, accepted bool) probe.Result {
	r := probe.Found(probe.Info, "packets for %s leave with that address: no kube-proxy rule translates it", s.to)
	if i := slices.IndexFunc(f.links, func(l kernel.Link) bool { return l.Has(s.to.Addr()) }); i >= 0 {
		r.Saw = fmt.Sprintf("packets for %s stay on this node: its interface %s has that address", s.to, f.links[i].Name)
		return r
	}
	_, entry, err := kernel.RouteOf(kernel.Packet{To: s.to.Addr()})
	if err == nil && entry != nil && entry.Type == kernel.Local {
		text := probe.OneLine(entry.String())
		r.Saw = fmt.Sprintf("%s leads to this node itself, which is not an endpoint of the service; route: %s", s.to, text)
		return f.judge(ctx, r, s).With(probe.FactRule, text).With(service.FactMeans, service.MeansRoute).
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
	return f.judge(ctx, withRule(r.With(service.FactSentTo, sendsTo(rules[i])), rules[i]), s)
}

// judgeUnsent evaluates a connection that the kernel does not track because it did not leave this node. If the node
// has routes to the Service's address and endpoints, a rule sends the connection to an address that has no route. An
// example is the hostPort of a deleted pod. The pod's address is in the node's own block, which has a blackhole route.
func (f follower) judgeUnsent(s followed, err error) probe.Result {
	r := probe.Found(probe.Info, "unknown where connections to %s go: %v", s.to, err)
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
	r.Saw = fmt.Sprintf("%s leads to %s: this node has no route to it, and it is not an endpoint of the service (%s)",
		s.to, to, ports(s.endpoints))
	r.Status = s.severity()
	return withRule(r.With(service.FactSentTo, to.String()), rules[i])
}

// sendsTo returns a rule's destination: an address and port, or ":PORT" on this node.
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

// isOwn reports whether an address belongs to this node.
func (f follower) isOwn(a netip.Addr) bool {
	return a.IsLoopback() || slices.ContainsFunc(f.links, func(l kernel.Link) bool { return l.Has(a) })
}

// reaches reports whether a Service's packets can reach a rule. Rules for a hostPort apply only to this node's own
// addresses, because the jump to their chain requires dst-type LOCAL. The rules themselves match only the port.
func (f follower) reaches(rule kernel.PacketRule, s followed) bool {
	return !kernel.OfHostPort(rule.Table, rule.Chain) || f.isOwn(s.to.Addr())
}

// specific reports whether a rule matches an address or a port. If it matches neither, it may be for other packets.
func specific(r kernel.PacketRule) bool { return r.To.IsValid() || r.ToPorts != [2]int{} }

// redirectingRule returns the rule that redirected a Service's connections. It prefers a rule that has this
// destination and no unknown conditions. A rule that has several destinations is the last choice.
func redirectingRule(rules []kernel.PacketRule, s followed, sent netip.AddrPort, own bool) (kernel.PacketRule, bool) {
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

// ports returns the first few addresses, with their ports.
func ports(all []netip.AddrPort) string {
	var out []string
	for _, a := range all {
		out = append(out, a.String())
	}
	return node.Some(out)
}
