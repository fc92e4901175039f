package do

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// portDNS is the port on which name servers listen.
const portDNS = 53

// lookup is the query.
type lookup struct {
	tools.DNSArgs
	name     string // with its trailing dot
	types    []uint16
	typedDot bool
}

// lookUp queries name servers.
func lookUp(ctx context.Context, j *probe.Job, a *tools.DNSArgs) probe.Result {
	l := lookup{DNSArgs: *a, name: dns.Fqdn(a.Name), types: []uint16{dns.TypeA, dns.TypeAAAA},
		typedDot: strings.HasSuffix(a.Name, ".")}
	switch {
	case a.Reverse != "":
		name, err := dns.ReverseAddr(a.Reverse)
		if err != nil {
			return probe.Failed(err)
		}
		l.name, l.types = name, []uint16{dns.TypePTR}
	case a.Type != "":
		l.types = []uint16{dns.StringToType[a.Type]}
	}
	return l.run(ctx, j)
}

// run queries one name after another, each with all types.
func (l lookup) run(ctx context.Context, j *probe.Job) probe.Result {
	names, servers := []string{l.name}, []netip.AddrPort{l.Server}
	if !l.Server.IsValid() || l.Search {
		conf, err := readResolver(j.Host)
		if err != nil {
			return unread(fmt.Errorf("the node's name servers are unknown: %w; specify one: @10.96.0.10", err))
		}
		if !l.Server.IsValid() {
			servers = conf.servers
			if len(servers) == 0 {
				return probe.Found(probe.Fail, "%s names no usable server", resolvConf)
			}
		}
		if l.Search {
			names = conf.candidates(l.name, l.typedDot)
		}
	}
	if l.Namespace != "" {
		names = inPod(j.Host, l)
	}
	var last []replied
	for i, name := range names {
		if i > 0 {
			j.Say("")
		}
		last = nil
		silent := false
		for _, record := range l.types {
			if !silent { // a server that did not answer will not answer for the next type either
				last = append(last, l.ask(ctx, j, name, record, servers))
				silent = last[len(last)-1].err != nil
			}
		}
		if ctx.Err() != nil || silent || slices.ContainsFunc(last, func(a replied) bool { return a.records > 0 }) {
			break
		}
	}
	return conclude(ctx, last)
}

// replied is the outcome of one query.
type replied struct {
	name, record string
	server       netip.AddrPort
	rcode        int
	records      int // records of the requested type
	first        string
	took         time.Duration
	err          error // no server answered
}

// ask queries the servers in turn until one answers, and prints the answer.
func (l lookup) ask(ctx context.Context, j *probe.Job, name string, record uint16, servers []netip.AddrPort) replied {
	r := replied{name: name, record: dns.TypeToString[record]}
	for _, r.server = range servers {
		if ctx.Err() != nil {
			r.err = ctx.Err()
			return r
		}
		msg, network, took, err := exchange(ctx, r.server, name, record, l.TCP, l.Wait)
		r.took, r.err = took, err
		if err != nil {
			j.Say("%s %s  %s by %s: %s", name, r.record, r.server, network, whyNot(err, took))
			continue
		}
		r.rcode = msg.Rcode
		j.Say("%s %s  %s by %s: %s in %s, flags %s", name, r.record, r.server, network, rcodeName(msg.Rcode),
			short(took), flagsOf(msg))
		r.records, r.first = printRecords(j, msg, record)
		return r
	}
	return r
}

// exchange sends a query. Over UDP, it sends the query twice, because a single lost packet means nothing. If the
// answer is truncated, it uses TCP.
func exchange(ctx context.Context, server netip.AddrPort, name string, record uint16, tcp bool,
	wait time.Duration) (msg *dns.Msg, network string, took time.Duration, err error) {
	network, tries := "UDP", 2
	if tcp {
		network, tries = "TCP", 1
	}
	began := time.Now()
	for range tries {
		one, cancel := context.WithTimeout(ctx, wait)
		client := dns.Client{Net: strings.ToLower(network), Timeout: wait}
		msg, _, err = client.ExchangeContext(one, new(dns.Msg).SetQuestion(name, record), server.String())
		cancel()
		if err == nil || ctx.Err() != nil || probe.Reason(err) != "timeout" {
			break
		}
	}
	took = time.Since(began)
	switch {
	case err != nil:
		return nil, network, took, err
	case msg.Truncated && !tcp:
		msg, _, took, err = exchange(ctx, server, name, record, true, wait)
		return msg, "TCP (truncated over UDP)", took, err
	}
	return msg, network, took, nil
}

// whyNot explains why a server did not answer.
func whyNot(err error, took time.Duration) string {
	switch probe.Reason(err) {
	case "timeout":
		return "no answer within " + short(took)
	case "refused":
		return "refused: nothing listens there, or a firewall rejects it"
	}
	return err.Error()
}

func rcodeName(code int) string {
	return cmp.Or(dns.RcodeToString[code], "code "+strconv.Itoa(code))
}

func flagsOf(m *dns.Msg) string {
	var out []string
	for _, f := range []struct {
		set  bool
		name string
	}{{m.Response, "qr"}, {m.Authoritative, "aa"}, {m.Truncated, "tc"}, {m.RecursionDesired, "rd"},
		{m.RecursionAvailable, "ra"}, {m.AuthenticatedData, "ad"}, {m.CheckingDisabled, "cd"}} {
		if f.set {
			out = append(out, f.name)
		}
	}
	return strings.Join(out, " ")
}

// maxRecords is the maximum number of records to print for one answer.
const maxRecords = 200

// printRecords prints an answer's records, and counts those of the requested type.
func printRecords(j *probe.Job, m *dns.Msg, record uint16) (matching int, first string) {
	left := maxRecords
	for _, part := range []struct {
		what string
		rrs  []dns.RR
	}{{"", m.Answer}, {"authority", m.Ns}} {
		for _, rr := range part.rrs {
			h := rr.Header()
			data := strings.TrimPrefix(rr.String(), h.String())
			if part.what == "" && (h.Rrtype == record || record == dns.TypeANY) {
				if matching++; matching == 1 {
					first = data
				}
			}
			if left--; left >= 0 {
				j.Say("  %s  %d  %s  %s%s", h.Name, h.Ttl, dns.Type(h.Rrtype), data,
					map[bool]string{true: "  (" + part.what + ")"}[part.what != ""])
			}
		}
	}
	if left < 0 {
		j.Say("  (%s not shown)", several(-left, "record"))
	}
	return matching, first
}

// rcodeText explains the usual DNS failures in words that end a sentence.
var rcodeText = map[int]string{
	dns.RcodeNameError:     ": no such name",
	dns.RcodeServerFailure: ": its upstream (the API server, or the servers it forwards to) failed",
	dns.RcodeRefused:       ": it answers, but is not configured to serve that name to this client",
}

// conclude evaluates the answers about the name that was queried last.
func conclude(ctx context.Context, all []replied) probe.Result {
	for _, r := range all {
		if r.records > 0 {
			more := ""
			if r.records > 1 {
				more = fmt.Sprintf(" and %d more", r.records-1)
			}
			return probe.Found(probe.OK, "%s %s is %s%s, by %s in %s", r.name, r.record, r.first, more, r.server,
				short(r.took))
		}
	}
	if ctx.Err() != nil {
		return probe.Found(probe.Unknown, "stopped before an answer arrived")
	}
	types := make([]string, len(all))
	for i, r := range all {
		types[i] = r.record
	}
	for _, r := range all { // an answer takes precedence over another server's silence
		if r.err == nil && r.rcode != dns.RcodeSuccess {
			return probe.Found(probe.Fail, "%s answers %s to %s%s", r.server, rcodeName(r.rcode), r.name,
				rcodeText[r.rcode]).With(probe.FactReason, strings.ToLower(rcodeName(r.rcode)))
		}
	}
	for _, r := range all {
		if r.err != nil {
			return noReply(r)
		}
	}
	return probe.Found(probe.Fail, "%s knows %s, but has no %s record for it", all[0].server, all[0].name,
		strings.Join(types, " or "))
}

// noReply returns the result for a query that got no answer.
func noReply(r replied) probe.Result {
	reason := probe.Reason(r.err)
	status := probe.Fail
	if reason == "error" && !errors.As(r.err, new(*net.OpError)) { // the reply was not DNS
		status = probe.Unknown
	}
	return probe.Found(status, "%s does not answer about %s: %s", r.server, r.name, whyNot(r.err, r.took)).
		With(probe.FactReason, reason)
}
