package ask

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

	dnsfacts "github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// dnsExternalCheck binds dnsfacts.DNSExternal to the function that runs it.
var dnsExternalCheck = answers.To(dnsfacts.DNSExternal, dnsExternal)

// factSearchCost is the number of additional queries that a pod sends for a name outside the cluster.
const factSearchCost probe.Fact = "extra_questions"

// hostResolvConf is the file that configures name resolution for the node's programs, including the container runtime.
const hostResolvConf = "/etc/resolv.conf"

// slowDNS is the time from which an answer counts as slow. Resolvers wait five seconds, and a lookup in a pod sends
// four or more queries.
const slowDNS = time.Second

func dnsExternal(ctx context.Context, p *probe.Pass) {
	k, err := node.ReadKubelet(p.Host)
	domain, _ := node.DomainOf(k, err)
	name := cmp.Or(k.ResolvConf, hostResolvConf)
	text, err := p.Host.ReadFile(name)
	own, search := reach.ResolvConf(text)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		p.Report(node.Unseen(err).On(name))
	}
	if text, err := p.Host.ReadFile(hostResolvConf); err == nil && name != hostResolvConf { // the runtime uses this file
		of, _ := reach.ResolvConf(text)
		own = append(own, slices.DeleteFunc(of, func(a netip.Addr) bool { return slices.Contains(own, a) })...)
	}
	var servers []*outside
	for _, a := range own {
		// The loopback inside a pod is not the node's loopback.
		if !a.IsLoopback() || p.From == "" {
			servers = append(servers,
				&outside{target: probe.Target{Name: probe.RoleNode, Addr: a, Port: dnsPort}, own: true})
		}
	}
	for _, t := range dnsServers(p, k) {
		if t.Name != probe.RoleEndpoint {
			servers = append(servers, &outside{target: t})
		}
	}
	if len(servers) == 0 {
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			p.Report(node.Gap(p, probe.KindDNS, "the node's name servers and the DNS Service are unknown"))
		}
		return
	}
	suffixes := []string{"default.svc." + domain, "svc." + domain, domain}
	for _, s := range search {
		if s = strings.TrimSuffix(s, "."); s != "" && len(suffixes) < maxSuffixes {
			suffixes = append(suffixes, s)
		}
	}
	node.Each(servers, func(o *outside) {
		both := []func(){func() { o.root = queryRoot(ctx, addrOf(o.target)) }}
		if !o.own {
			both = append(both, func() { o.search = querySearch(ctx, addrOf(o.target), suffixes) })
		}
		node.Each(both, func(f func()) { f() })
	})
	passed := slices.ContainsFunc(servers, func(o *outside) bool { return o.own && o.root.good() })
	for _, o := range servers {
		at := o.target.Name + " " + addrOf(o.target)
		p.Report(o.root.result(ctx, passed && !o.own).On(at).With(probe.FactFamily, node.Family(o.target.Addr)).
			With(dnsfacts.FactQuestion, ".").With(probe.FactRole, o.target.Name))
		if !o.own {
			p.Report(judgeSearch(ctx, o.search).On("search list of "+at).With(probe.FactFamily, node.Family(o.target.Addr)))
		}
	}
}

// outside holds one server and its answer.
type outside struct {
	target probe.Target
	own    bool // true if the server comes from the node's resolv.conf, not from the cluster
	root   rootAnswer
	search []searchAnswer
}

// rootAnswer is a server's answer about the root zone. If the answer is too large for UDP, it comes over TCP.
type rootAnswer struct {
	reach.DNSAnswer
	cut bool
}

func queryRoot(ctx context.Context, server string) rootAnswer {
	const root = "."
	a := rootAnswer{DNSAnswer: queryTwice(ctx, server, root, dns.TypeNS)}
	if a.Msg != nil && a.Msg.Truncated {
		a = rootAnswer{reach.QueryDNS(ctx, "tcp", server, root, dns.TypeNS), true}
	}
	return a
}

// queryTwice sends a query over UDP. If the answer is slow, it repeats the query. The server may have queried other
// servers the first time, and now has the answer in its cache.
func queryTwice(ctx context.Context, server, name string, record uint16) reach.DNSAnswer {
	a := reach.QueryDNS(ctx, "udp", server, name, record)
	if a.Msg != nil && a.Took > slowDNS {
		if again := reach.QueryDNS(ctx, "udp", server, name, record); again.Msg != nil {
			return again
		}
	}
	return a
}

// good reports whether the server resolves names outside the cluster.
func (a rootAnswer) good() bool { return a.Msg != nil && a.Msg.Rcode == dns.RcodeSuccess }

// result evaluates an answer. For the cluster's DNS, passed is true if the node's own servers answer the same query.
func (a rootAnswer) result(ctx context.Context, passed bool) probe.Result {
	var r probe.Result
	switch {
	case a.Msg == nil:
		r = a.Failure(ctx)
		if a.cut && r.Status == probe.Fail {
			r.Saw = "the UDP answer is truncated; over TCP: " + r.Saw
			return r.With(node.FactTruncated, true)
		}
		if r.Status == probe.Fail {
			r.Status = probe.Info
			r.Saw = "names outside the cluster do not resolve: " + r.Saw
		}
	case a.Msg.Rcode != dns.RcodeSuccess:
		r = probe.Found(probe.Info, "names outside the cluster do not resolve: %s%s", a.Rcode(), reach.Rcodes[a.Msg.Rcode])
	case a.Took > slowDNS:
		r = probe.Found(probe.Warn, "names outside the cluster resolve, in %v", a.Took.Round(time.Millisecond))
	default:
		r = probe.Found(probe.OK, "names outside the cluster resolve, in %v", a.Took.Round(100*time.Microsecond))
	}
	// Servers that are configured not to forward queries answer REFUSED. That is not a fault.
	silent := a.Msg == nil && r.Status == probe.Info
	if failed := a.Msg != nil && a.Msg.Rcode == dns.RcodeServerFailure; passed && (silent || failed) {
		r.Status = probe.Warn
		r.Saw += "; the node's own name servers resolve external names"
	}
	if a.Msg != nil {
		r = r.With(probe.FactRcode, a.Rcode()).With(probe.FactTook, node.Milliseconds(a.Took))
	}
	return r
}

// maxSuffixes is the maximum number of search domains to query.
const maxSuffixes = 8

// searchAnswer is the answer for a name that does not exist, in one domain of the search list.
type searchAnswer struct {
	reach.DNSAnswer
	suffix string
}

func querySearch(ctx context.Context, server string, suffixes []string) []searchAnswer {
	out := make([]searchAnswer, len(suffixes))
	var all probe.Workers
	for i, s := range suffixes {
		all.Go(func() { out[i] = searchAnswer{queryTwice(ctx, server, "calico-probe.invalid."+s+".", dns.TypeA), s} })
	}
	all.Wait()
	return out
}

// judgeSearch evaluates the cost of the search list. Each lookup of a name outside the cluster
// tries all domains in turn.
func judgeSearch(ctx context.Context, answers []searchAnswer) probe.Result {
	var whole time.Duration
	var bad, wild, lines []string
	for _, a := range answers {
		line := a.suffix + ": "
		switch {
		case a.Msg == nil:
			r, cut := node.CutShort(ctx, a.Err)
			if cut {
				return r
			}
			line += "no answer (" + probe.Reason(a.Err) + ")"
			bad = append(bad, line)
			whole += a.Waited
		case a.Msg.Rcode == dns.RcodeServerFailure:
			line += fmt.Sprintf("%s in %v", a.Rcode(), a.Took.Round(100*time.Microsecond))
			bad = append(bad, line)
			whole += a.Took
		default:
			line += fmt.Sprintf("%s in %v", a.Rcode(), a.Took.Round(100*time.Microsecond))
			whole += a.Took
			if a.Took > slowDNS {
				bad = append(bad, line)
			}
			if len(a.Addresses()) > 0 {
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
		r.Saw += fmt.Sprintf("; %s answers every name (a wildcard), including external names",
			strings.Join(wild, ", "))
	}
	return r.With(factSearchCost, len(answers)).With(probe.FactTook, node.Milliseconds(whole)).Because(lines...)
}
