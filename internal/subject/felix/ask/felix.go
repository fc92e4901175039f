package ask

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	felixfacts "github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/felix"
	"github.com/calico-probe/calico-probe/probe/node"
)

// Facts of the Felix checks.
const (
	factComponents probe.Fact = "components" // list of {name, timeout, live, ready, detail}

	factResolved probe.Fact = "resolved" // addresses to which the name of the health host resolves
)

func queryFelix(ctx context.Context, p *probe.Pass, path string) {
	at := probe.Target{}
	if t := p.Of(probe.KindFelix); len(t) > 0 {
		at = t[0]
	}
	if at.Host == "" {
		at.Host = felix.DefaultHost
	}
	if at.Port == 0 {
		at.Port = felix.DefaultPort
	}
	addrs, err := node.Resolve(ctx, p.Host, at.Host)
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		p.Report(probe.Found(probe.Fail, "the health host %q does not resolve on this node", at.Host).
			With(probe.FactReason, "no-name"))
		return
	case err != nil:
		p.Report(probe.Failed(fmt.Errorf("resolving the health host %q: %w", at.Host, err)))
		return
	}
	if i := slices.IndexFunc(addrs,
		func(a netip.Addr) bool { return !a.IsLoopback() }); at.Host == felix.DefaultHost && i >= 0 {
		r := probe.Found(probe.Fail,
			"on this node, localhost resolves to %s, not to a loopback address: the kubelet and Felix use that address", addrs[i])
		p.Report(r.With(factResolved, texts(addrs)).With(probe.FactReason, "foreign-address"))
		addrs = []netip.Addr{netip.MustParseAddr("127.0.0.1")} // the answer if localhost resolved correctly
	}
	var worst probe.Result
	for _, a := range addrs {
		addr := netip.AddrPortFrom(a, uint16(at.Port))
		// A healthy Felix answers within a millisecond, and the kubelet's own probe waits for at least a
		// second. Two addresses share the time.
		one, limit, cancel := node.Part(ctx, 3)
		answer, err := felix.Get(one, addr, path)
		cancel()
		if err == nil {
			p.Report(node.HeldHealth(ctx, p.Host, judgeAnswer(answer, addr, path), answer.FromFelix()))
			checkProbeAddress(ctx, p, at, addr, path)
			return
		}
		if r, cut := node.CutShort(ctx, err); cut {
			p.Report(r)
			return
		}
		if r := node.NoAnswer(err, addr.String(), limit).With(probe.FactAddress, addr.String()); weight(r) > weight(worst) {
			worst = r
		}
	}
	if worst.Facts.Str(probe.FactReason) == "refused" {
		if r, ok := queryListeners(ctx, p, at, addrs, path); ok {
			p.Report(r)
			return
		}
	}
	p.Report(node.HeldHealth(ctx, p.Host, explainRefusal(p, worst, at), false))
}

// If Felix answered at one address and calico-node's own probe uses another, checkProbeAddress also sends the
// request to that address.
func checkProbeAddress(ctx context.Context, p *probe.Pass, at probe.Target, answers netip.AddrPort, path string) {
	addr, moved := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), answers.Port()), at.Attrs[probe.AttrProbed] != ""
	if here := runningFelix(p.Host); here.known {
		probed, ok := here.probed(ctx, p.Host)
		addr, moved = probed, ok && probed.Port() != answers.Port() || moved
	}
	if !moved || answers == addr || answers.Addr() == netip.IPv6Loopback() && addr.Port() == answers.Port() {
		return
	}
	one, limit, cancel := node.Part(ctx, 3)
	defer cancel()
	if _, err := felix.Get(one, addr, path); err != nil {
		if r, cut := node.CutShort(ctx, err); cut {
			p.Report(r)
			return
		}
		r := node.NoAnswer(err, addr.String(), limit).With(probe.FactAddress, addr.String()).
			With(probe.FactListening, []string{answers.String()})
		r.Saw = fmt.Sprintf("calico-node's liveness probe uses %s (%s), but Felix answers at %s, from FelixConfiguration's healthHost or healthPort", addr, r.Facts.Str(probe.FactReason), answers)
		p.Report(r.On("localhost"))
	}
}

// weight ranks the answers from several addresses by how much they prove. On a node without IPv6, ::1 is
// unreachable, which does not prove anything.
func weight(r probe.Result) int {
	switch r.Facts.Str(probe.FactReason) {
	case "timeout":
		return 5
	case "reset", "closed":
		return 4
	case "refused":
		return 3
	case "":
		return 0
	}
	return 1
}

// explainRefusal adds known reasons why Felix does not answer. Another program may use its port, its health
// endpoint may be disabled, or the address may be a guess.
func explainRefusal(p *probe.Pass, r probe.Result, at probe.Target) probe.Result {
	if r.Facts.Str(probe.FactReason) != "refused" {
		return r
	}
	if others, err := node.Listening(uint16(at.Port)); err == nil {
		r = r.With(probe.FactListening, others)
		if len(others) > 0 {
			r.Saw = fmt.Sprintf("connection to %s refused, but something listens on %s", r.Facts.Str(probe.FactAddress),
				strings.Join(others, ", "))
		} else {
			r.Saw += fmt.Sprintf(", nor on any other address of port %d", at.Port)
		}
	}
	switch why := node.Unlisted(p, probe.KindFelix); {
	case len(p.Of(probe.KindFelix)) == 0 && !hasCalico(p.Host):
		r.Status = probe.Unknown
		r.Saw += "; this machine has no trace of Calico"
	case at.Attrs[probe.AttrEnabled] == "false":
		r.Status = probe.Skip
		r.Saw = "Felix's health port is disabled (healthEnabled is false): " + r.Saw
		r = r.With(probe.FactReason, "disabled")
	case why != nil && at.Attrs[probe.AttrEnabled] == "":
		r.Status = node.Unseen(why).Status
		r.Saw += fmt.Sprintf("; unknown whether Felix should answer there: %v", why)
	}
	return r
}

// hasCalico reports whether there is any trace of Calico on the node.
func hasCalico(h *probe.Host) bool {
	for _, name := range []string{h.Place(probe.PlaceRun), h.Place(probe.PlaceLib), "/etc/cni/net.d/10-calico.conflist"} {
		if _, err := h.Stat(name); err == nil || errors.Is(err, probe.ErrNotVisible) { // not visible: assume yes
			return true
		}
	}
	return false
}

// judgeAnswer evaluates the answer from Felix, or from another program on Felix's port.
func judgeAnswer(a *felix.Answer, addr netip.AddrPort, path string) probe.Result {
	r := probe.Found(probe.OK, "%d from %s%s", a.Code, addr, path)
	var bad []string
	for _, c := range a.Components {
		word := c.Live
		if path == "/readiness" {
			word = c.Ready
		}
		if word != "-" && !strings.HasPrefix(word,
			"reporting "+map[string]string{"/liveness": "live", "/readiness": "ready"}[path]) {
			bad = append(bad, fmt.Sprintf("%s %s (limit %s)", c.Name, word, c.Timeout))
		}
	}
	switch {
	case !a.FromFelix() && (a.Code < 200 || a.Code > 399): // the range that a kubelet accepts
		r = probe.Found(probe.Fail,
			"%d from %s%s, not from Felix: another program holds Felix's port, so the kubelet's probe fails", a.Code,
			addr, path)
	case !a.FromFelix():
		r = probe.Found(probe.Warn, "%d from %s%s, not from Felix: another program listens there", a.Code, addr,
			path)
	case !a.Good() && len(bad) > 0:
		r = probe.Found(probe.Fail, "%d from %s%s: %s", a.Code, addr, path, strings.Join(bad, ", "))
	case !a.Good():
		r = probe.Found(probe.Fail, "%d from %s%s, without a reason", a.Code, addr, path)
	case len(a.Components) > 0:
		r.Saw += fmt.Sprintf(", %d components healthy", len(a.Components))
	}
	if !a.Good() || !a.FromFelix() {
		r = r.Because(lines(a.Body)...)
	}
	r = r.With(probe.FactAddress, addr.String()).With(probe.FactCode, a.Code)
	if len(a.Components) > 0 {
		r = r.With(factComponents, a.Components)
	}
	if len(bad) > 0 {
		r = r.With(felixfacts.FactBad, bad)
	}
	return r
}

func texts(addrs []netip.Addr) []string {
	out := make([]string, 0, len(addrs))
	for _, a := range addrs {
		out = append(out, a.String())
	}
	return out
}

// lines returns the non-empty lines of a text.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n "); line != "" {
			out = append(out, line)
		}
	}
	return out
}
