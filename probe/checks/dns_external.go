package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/calico-probe/calico-probe/probe"
)

// DNSExternal asks beyond the cluster: where the node's own name servers answer
// and the cluster's DNS does not pass questions on to them, pods reach each other
// and nothing else.
var DNSExternal = &probe.Check{
	ID: "dns-external", Asks: "do names outside the cluster resolve, by the node's own name servers and through the cluster's DNS, and what does the search list cost?", From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags:   []string{tagNetwork, tagDNS},
	Access: []string{"host network", "etc/resolv.conf", "var/lib/kubelet/config.yaml", probe.AccessPods},
	Needs:  []string{probe.CheckNodeUplink, probe.CheckPodUplink, probe.CheckDNSCluster},
	Run:    dnsExternal, Limit: 10 * time.Second,
	Doc: `The name servers of the root zone are asked of each server in the resolv.conf that the kubelet uses, in /etc/resolv.conf, and of the cluster's DNS, which passes such questions on: an answer takes no access to the Internet, only a resolver that resolves. Then a name that does not exist is asked in each domain of a pod's search list (ndots:5), as every outside name is before it is asked as it stands. Asked from the node, and again from inside one of its own pods, whence the cluster's DNS servers ask too.
ok: answered. info: no answer about names outside the cluster: as it should be where the cluster is cut off; SERVFAIL says that its upstream failed, REFUSED that it is not configured to try, no answer that nothing is there or packets are lost. A domain of the search list that has an answer for every name (a wildcard) takes outside names away from their owners. warn: the node's own servers answer, but the cluster's DNS fails (SERVFAIL) or does not answer: it has no upstream, or that does not answer it, often because packets of its pods leave the node with an address that nobody outside can answer (natOutgoing of the IP pool); or an answer takes more than a second, asked twice; or a domain of the search list is slow, silent or SERVFAIL, which every look-up of an outside name has to wait for. fail: an answer does not fit into UDP, and TCP, which is then asked, fails: a firewall that knows DNS as UDP alone.
skip: neither the node's resolv.conf nor a DNS service is known, or there is no pod on this node to ask from.`,
}

// factSearchCost is how many more questions an outside name costs a pod.
const factSearchCost probe.Fact = "extra_questions"

// hostResolvConf is what programs of the node resolve by, the container runtime among them.
const hostResolvConf = "/etc/resolv.conf"

// slowDNS is when an answer is called slow: resolvers wait five seconds, and a
// look-up in a pod asks four or more times.
const slowDNS = time.Second

func dnsExternal(ctx context.Context, p *probe.Pass) {
	k, err := readKubelet(p.Host)
	domain, _ := domainOf(k, err)
	name := cmp.Or(k.ResolvConf, hostResolvConf)
	text, err := p.Host.ReadFile(name)
	own, search := resolvConf(text)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		p.Report(unseen(err).On(name))
	}
	if text, err := p.Host.ReadFile(hostResolvConf); err == nil && name != hostResolvConf { // what the runtime asks
		of, _ := resolvConf(text)
		own = append(own, slices.DeleteFunc(of, func(a netip.Addr) bool { return slices.Contains(own, a) })...)
	}
	var servers []*outside
	for _, a := range own {
		// A server on the node's loopback is another one inside a pod, or nobody.
		if !a.IsLoopback() || p.From == "" {
			servers = append(servers,
				&outside{target: probe.Target{Name: RoleNode, Addr: a, Port: dnsPort}, own: true})
		}
	}
	for _, t := range dnsServers(p, k) {
		if t.Name != RoleEndpoint {
			servers = append(servers, &outside{target: t})
		}
	}
	if len(servers) == 0 {
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			p.Report(gap(p, probe.KindDNS, "neither a name server of the node nor a DNS service is known"))
		}
		return
	}
	suffixes := []string{"default.svc." + domain, "svc." + domain, domain}
	for _, s := range search {
		if s = strings.TrimSuffix(s, "."); s != "" && len(suffixes) < maxSuffixes {
			suffixes = append(suffixes, s)
		}
	}
	each(servers, func(o *outside) {
		both := []func(){func() { o.root = askRoot(ctx, addrOf(o.target)) }}
		if !o.own {
			both = append(both, func() { o.search = askSearch(ctx, addrOf(o.target), suffixes) })
		}
		each(both, func(f func()) { f() })
	})
	passed := slices.ContainsFunc(servers, func(o *outside) bool { return o.own && o.root.good() })
	for _, o := range servers {
		at := o.target.Name + " " + addrOf(o.target)
		p.Report(o.root.result(ctx, passed && !o.own).On(at).With(FactFamily, family(o.target.Addr)).
			With(FactQuestion, ".").With(FactRole, o.target.Name))
		if !o.own {
			p.Report(searched(ctx, o.search).On("search list of "+at).With(FactFamily, family(o.target.Addr)))
		}
	}
}

// outside is one server and what it answered.
type outside struct {
	target probe.Target
	own    bool // of the node's resolv.conf, not the cluster's
	root   rootAnswer
	search []searchAnswer
}

// rootAnswer is a server's answer about the root zone; by TCP where it did not
// fit into UDP.
type rootAnswer struct {
	dnsAnswer
	cut bool
}

func askRoot(ctx context.Context, server string) rootAnswer {
	const root = "."
	a := rootAnswer{dnsAnswer: askTwice(ctx, server, root, dns.TypeNS)}
	if a.msg != nil && a.msg.Truncated {
		a = rootAnswer{askDNS(ctx, "tcp", server, root, dns.TypeNS), true}
	}
	return a
}

// askTwice asks by UDP, and again where the answer was slow: the server may have
// had to ask others and knows now.
func askTwice(ctx context.Context, server, name string, record uint16) dnsAnswer {
	a := askDNS(ctx, "udp", server, name, record)
	if a.msg != nil && a.took > slowDNS {
		if again := askDNS(ctx, "udp", server, name, record); again.msg != nil {
			return again
		}
	}
	return a
}

// good: it resolves names of the outside.
func (a rootAnswer) good() bool { return a.msg != nil && a.msg.Rcode == dns.RcodeSuccess }

// result judges an answer. Passed says that this is the cluster's DNS, and the
// node's own servers answer the same question.
func (a rootAnswer) result(ctx context.Context, passed bool) probe.Result {
	var r probe.Result
	switch {
	case a.msg == nil:
		r = a.failure(ctx)
		if a.cut && r.Status == probe.Fail {
			r.Saw = "its UDP answer is truncated, and over TCP: " + r.Saw
			return r.With(FactTruncated, true)
		}
		if r.Status == probe.Fail {
			r.Status = probe.Info
			r.Saw = "names outside the cluster do not resolve: " + r.Saw
		}
	case a.msg.Rcode != dns.RcodeSuccess:
		r = probe.Found(probe.Info, "names outside the cluster do not resolve: %s%s", a.rcode(), rcodes[a.msg.Rcode])
	case a.took > slowDNS:
		r = probe.Found(probe.Warn, "names outside the cluster resolve, in %v", a.took.Round(time.Millisecond))
	default:
		r = probe.Found(probe.OK, "names outside the cluster resolve, in %v", a.took.Round(100*time.Microsecond))
	}
	// REFUSED is what a server says that is set not to forward: no fault.
	silent := a.msg == nil && r.Status == probe.Info
	if failed := a.msg != nil && a.msg.Rcode == dns.RcodeServerFailure; passed && (silent || failed) {
		r.Status = probe.Warn
		r.Saw += "; the node's own name servers resolve them"
	}
	if a.msg != nil {
		r = r.With(FactRcode, a.rcode()).With(FactTook, milliseconds(a.took))
	}
	return r
}

// maxSuffixes bounds how many domains of the search list are asked.
const maxSuffixes = 8

// searchAnswer is the answer about a name that does not exist in a domain of the
// search list.
type searchAnswer struct {
	dnsAnswer
	suffix string
}

func askSearch(ctx context.Context, server string, suffixes []string) []searchAnswer {
	out := make([]searchAnswer, len(suffixes))
	var all probe.Workers
	for i, s := range suffixes {
		all.Go(func() { out[i] = searchAnswer{askTwice(ctx, server, "calico-probe.invalid."+s+".", dns.TypeA), s} })
	}
	all.Wait()
	return out
}

// searched judges what the search list costs: each look-up of an outside name
// waits for all of it, one after the other.
func searched(ctx context.Context, answers []searchAnswer) probe.Result {
	var whole time.Duration
	var bad, wild, lines []string
	for _, a := range answers {
		line := a.suffix + ": "
		switch {
		case a.msg == nil:
			r, cut := cutShort(ctx, a.err)
			if cut {
				return r
			}
			line += "no answer (" + probe.Reason(a.err) + ")"
			bad = append(bad, line)
			whole += a.waited
		case a.msg.Rcode == dns.RcodeServerFailure:
			line += fmt.Sprintf("%s in %v", a.rcode(), a.took.Round(100*time.Microsecond))
			bad = append(bad, line)
			whole += a.took
		default:
			line += fmt.Sprintf("%s in %v", a.rcode(), a.took.Round(100*time.Microsecond))
			whole += a.took
			if a.took > slowDNS {
				bad = append(bad, line)
			}
			if len(a.addresses()) > 0 {
				wild = append(wild, a.suffix)
			}
		}
		lines = append(lines, line)
	}
	r := probe.Found(probe.OK, "a name outside the cluster costs a pod (ndots:5) %d extra queries, %v in total",
		len(answers), whole.Round(100*time.Microsecond))
	switch {
	case len(bad) > 0:
		r.Status = probe.Warn
		r.Saw += ": " + strings.Join(bad, ", ")
	case len(wild) > 0:
		r.Status = probe.Info
		r.Saw += fmt.Sprintf("; %s answers every name (a wildcard), also names that belong to others",
			strings.Join(wild, ", "))
	}
	return r.With(factSearchCost, len(answers)).With(FactTook, milliseconds(whole)).Because(lines...)
}
