package do

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/calico-probe/calico-probe/probe"
)

// resolveLimit is the time limit for resolving one name in all domains of the search list.
const resolveLimit = 10 * time.Second

// resolve returns a name's addresses. If the client sent addresses for the name, for example because it is a node,
// resolve returns those. Otherwise, it resolves the name in the same way as programs on the node, with /etc/hosts,
// name servers and the search list.
func resolve(ctx context.Context, j *probe.Job, host string) (addrs []netip.Addr, by string, r probe.Result) {
	if addrs := j.Hosts[host]; len(addrs) > 0 && strings.Contains(host, "/") {
		return addrs, "the API (the pod's address)", r
	} else if len(addrs) > 0 {
		return addrs, "the API (the node's InternalIP)", r
	}
	if text, err := j.Host.ReadFile("/etc/hosts"); err == nil {
		if addrs := inHosts(text, host); len(addrs) > 0 {
			return addrs, "/etc/hosts", r
		}
	}
	conf, err := readResolver(j.Host)
	if err != nil {
		return nil, "", unread(fmt.Errorf("%s cannot be looked up: %w; use an address", host, err))
	}
	if len(conf.servers) == 0 {
		return nil, "", probe.Found(probe.Fail, "%s cannot be looked up: %s names no usable server", host,
			resolvConf)
	}
	return conf.find(ctx, host, 2*time.Second)
}

// find queries the servers for a name's addresses, in each domain of the search list.
func (c resolver) find(ctx context.Context, host string, wait time.Duration) (addrs []netip.Addr, by string,
	r probe.Result) {
	limited, cancel := context.WithTimeout(ctx, resolveLimit)
	defer cancel()
	var last []replied // about the name that was queried last
	for _, name := range c.candidates(dns.Fqdn(host), strings.HasSuffix(host, ".")) {
		last = nil
		servers := c.servers
		for _, record := range []uint16{dns.TypeA, dns.TypeAAAA} {
			more, reply := inTurn(limited, servers, name, record, wait)
			if last = append(last, reply); len(more) > 0 {
				addrs = append(addrs, more...)
				// This server has the name. If it does not answer AAAA queries, as with some middleboxes, do not wait
				// for the other servers.
				servers, by = []netip.AddrPort{reply.server}, reply.server.String()
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil, "", probe.Found(probe.Unknown, "stopped before %s was looked up", host)
		case len(addrs) > 0:
			return addrs, by, r
		case limited.Err() != nil:
			return nil, "", probe.Found(probe.Fail, "%s could not be looked up within %v: %s", host, resolveLimit,
				conclude(ctx, last).Saw).With(probe.FactReason, "timeout")
		}
	}
	return nil, "", conclude(ctx, last)
}

// inTurn queries the servers one after another until one gives a definite answer about the name. Like libc, it skips
// servers that fail or refuse.
func inTurn(ctx context.Context, servers []netip.AddrPort, name string, record uint16,
	wait time.Duration) (addrs []netip.Addr, r replied) {
	for i, server := range servers {
		msg, _, took, err := exchange(ctx, server, name, record, false, wait)
		one := replied{name: name, record: dns.TypeToString[record], server: server, took: took, err: err}
		if err == nil {
			one.rcode = msg.Rcode
		}
		if i == 0 || err == nil { // an answer takes precedence over another server's silence
			r = one
		}
		if err == nil && (msg.Rcode == dns.RcodeSuccess || msg.Rcode == dns.RcodeNameError) {
			return addressesIn(msg), r
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, r
}

// inHosts returns a name's addresses from a hosts file.
func inHosts(text []byte, host string) []netip.Addr {
	var out []netip.Addr
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) < 2 || !slices.ContainsFunc(f[1:],
			func(n string) bool { return strings.EqualFold(n, strings.TrimSuffix(host, ".")) }) {
			continue
		}
		if a, err := netip.ParseAddr(f[0]); err == nil && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// addressesIn returns the addresses in an answer.
func addressesIn(m *dns.Msg) []netip.Addr {
	var out []netip.Addr
	for _, rr := range m.Answer {
		var ip net.IP
		switch r := rr.(type) {
		case *dns.A:
			ip = r.A
		case *dns.AAAA:
			ip = r.AAAA
		}
		if a, ok := netip.AddrFromSlice(ip); ok {
			out = append(out, a.Unmap())
		}
	}
	return out
}
