package checks

import (
	"regexp"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/podlog"
)

// Facts of kube-log about a run that goes on.
const (
	FactLasts    probe.Fact = "lasts_s"   // for how long it has said so, in seconds
	FactOfServer probe.Fact = "of_server" // ADDRESS:PORT that does not answer it, or that it is refused by
)

// Signatures of lines of a run that goes on, besides those of one that ended.
const (
	SaysUpstream = "upstream" // the DNS server to which CoreDNS forwards does not answer
	SaysSync     = "sync"     // kube-proxy's rules are not taken by the kernel
)

const (
	// complaintFresh is how old the last of its lines may be. A reflector tries again after 30 s, with jitter a
	// minute, and a connection takes 30 s to time out (client-go, tools/cache; net/http).
	complaintFresh = 2 * time.Minute
	// complaintLasts is how long it has to go on to be no restart of what it asks.
	complaintLasts = 45 * time.Second
)

// grievance is how a component that goes on says that it does not get what it needs.
type grievance struct {
	line       *regexp.Regexp // the text is what it captures
	signatures []*signature   // one of them has to fit
	once       bool           // it is said once, at the start
}

// reflectorLine is client-go's, in the form of klog: Failed to watch, with what it failed for.
const reflectorLine = `(reflector\.go:\d+\] .*(?:Failed to (?:watch|list)|failed to list) .*)$`

// apiRefusals are what a client of the API server says that does not reach it, or is refused.
var apiRefusals = []*signature{
	{id: SaysForbidden, source: "API server", match: regexp.MustCompile(`is forbidden: `)},
	{id: SaysUnauthorized, source: "API server",
		match: regexp.MustCompile(`Unauthorized\b|the server has asked for the client to provide credentials`)},
	{id: SaysCertificate, source: "crypto/x509", match: regexp.MustCompile(`x509: `)},
	{id: SaysNoAPI, source: "client-go; net",
		match: regexp.MustCompile(`dial tcp [^ ]+: (?:i/o timeout|connect: )|dial tcp: lookup |TLS handshake timeout|no such host`)},
}

var complaints = map[string][]grievance{
	kubeProxyName: {
		{line: regexp.MustCompile(`^[EW]\d{4} [\d:.]+ +\d+ ` + reflectorLine), signatures: apiRefusals},
		{line: regexp.MustCompile(`^[EW]\d{4} [\d:.]+ +\d+ ((?:node|server)\.go:\d+\] "?(?:Timed out waiting for node to exist|Failed to retrieve node info).*)$`),
			once: true, signatures: []*signature{{id: SaysNodeNotFound, source: "kube-proxy, pkg/proxy/node.go; before v1.34 pkg/util/node",
				match: regexp.MustCompile(`Timed out waiting for node to exist|nodes \\?"[^"]*" not found`)}}},
		{line: regexp.MustCompile(`^[EW]\d{4} [\d:.]+ +\d+ (proxier\.go:\d+\] "(?:Failed to execute iptables-restore|nftables sync failed|Failed to ensure chain (?:exists|jumps)|Failed to (?:create dummy interface|add IPVS service|sync service)).*)$`),
			signatures: []*signature{{id: SaysSync, source: "kube-proxy, pkg/proxy/*/proxier.go", match: regexp.MustCompile(`err=`)}}},
	},
	coreDNSName: {
		{line: regexp.MustCompile(`^\[(?:ERROR|WARNING|INFO)\] (plugin/kubernetes: .*` + strings.TrimPrefix(reflectorLine, "(")),
			signatures: apiRefusals},
		// The name that was asked for is a client's, and has no blank in it.
		{line: regexp.MustCompile(`^\[ERROR\] (plugin/errors: 2 \S+ [A-Z\d]+: (?:read udp \S+->\S+: i/o timeout|dial (?:udp|tcp) \S+: .*))$`),
			signatures: []*signature{{id: SaysUpstream, source: "coredns/coredns#4211; plugin/errors, plugin/forward",
				match: regexp.MustCompile(`: (?:read|dial) `)}}},
	},
}

// peerOf is who does not answer, or refuses, as the line has it.
var peerOf = regexp.MustCompile(`dial (?:tcp|udp) ([\[\]0-9a-f.:]+:\d+): |read udp \S+->([\[\]0-9a-f.:]+:\d+): |Get \\?"?https?://([\w.:\[\]-]+)/`)

// found is what kube-proxy says at its start where the Node that it looks for is there.
var found = regexp.MustCompile(`Successfully retrieved (?:node IP|NodeIPs)`)

// heardLine is a grievance as it was last heard.
type heardLine struct {
	podlog.Line
	of    *signature
	once  bool
	first time.Time // since when it has been said without a break
}

// grievanceOf recognises a line.
func grievanceOf(component string, l podlog.Line) (heardLine, bool) {
	for _, c := range complaints[component] {
		m := c.line.FindStringSubmatch(l.Text)
		if m == nil {
			continue
		}
		for _, s := range c.signatures {
			if s.match.MatchString(m[1]) {
				return heardLine{podlog.Line{Time: l.Time, Text: m[1]}, s, c.once, l.Time}, true
			}
		}
	}
	return heardLine{}, false
}

// heard judges what a run that goes on says again and again: the grievance that was last heard. Nobody says that
// one is past, so only what is fresh counts.
func heard(component string, lines []podlog.Line, now time.Time) (probe.Result, bool) {
	var last *heardLine
	before := map[string]heardLine{}
	for _, l := range lines {
		if found.MatchString(l.Text) {
			last = nil
			clear(before)
			continue
		}
		it, ok := grievanceOf(component, l)
		if !ok {
			continue
		}
		if of, known := before[it.of.id]; known && it.Time.Sub(of.Time) < complaintFresh {
			it.first = of.first
		}
		before[it.of.id] = it
		if it.once || !it.Time.IsZero() && now.Sub(it.Time) < complaintFresh {
			last = &it
		}
	}
	if last == nil {
		return probe.Result{}, false
	}
	return last.result(now), true
}

func (l heardLine) result(now time.Time) probe.Result {
	said, lasts := quoted(l.Line), max(0, now.Sub(l.first))
	r := probe.Found(probe.Info, "it goes on, and says: %s", said.Aged(now))
	switch {
	case l.once:
		r.Status, lasts = probe.Warn, 0
	case lasts >= complaintLasts:
		r = probe.Found(probe.Warn, "it goes on, and has said for %s: %s", probe.Age(lasts), said.Aged(now))
		if l.of.id == SaysUpstream { // as it should be where the cluster is cut off
			r.Status = probe.Info
		}
	}
	r = r.With(FactLine, said.Text).With(FactEnded, false).With(FactSignature, l.of.id).
		With(FactLasts, int(lasts.Seconds()))
	if m := peerOf.FindStringSubmatch(l.Text); m != nil {
		r = r.With(FactOfServer, strings.Join(m[1:], ""))
	}
	if m := forbidden.FindStringSubmatch(strings.ReplaceAll(l.Text, `\"`, `"`)); m != nil {
		r = r.With(FactWho, m[1]).With(FactMay, m[2]+" "+m[3])
	}
	return r
}

// klogTime is the time of a line of klog's, which has neither year nor zone.
var klogTime = regexp.MustCompile(`^[IWEF](\d{4} \d\d:\d\d:\d\d\.\d+) `)

// timed gives the lines of a file that has no times of its own those of klog, such that the last is of the moment
// when the file was last written.
func timed(lines []podlog.Line, written time.Time) []podlog.Line {
	at := make([]time.Time, len(lines))
	var last time.Time
	for i, l := range lines {
		if m := klogTime.FindStringSubmatch(l.Text); m != nil {
			if t, err := time.Parse("0102 15:04:05.999999999", m[1]); err == nil {
				at[i], last = t, t
			}
		}
	}
	out := make([]podlog.Line, len(lines))
	for i, l := range lines {
		out[i] = l
		if ago := last.Sub(at[i]); l.Time.IsZero() && !at[i].IsZero() && ago >= 0 {
			out[i].Time = written.Add(-ago)
		}
	}
	return out
}
