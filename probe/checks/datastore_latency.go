package checks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// DatastoreLatency measures the way to Calico's datastore from this very node. In
// the field a far-away node was killed a minute after each start: its start-up
// took more round trips than the liveness budget had time for.
var DatastoreLatency = &probe.Check{
	ID: "datastore-latency", Asks: "how far is the API server from this node, and is it near enough for Calico to start in time?", From: probe.FromNode,
	Tags: []string{tagNetwork, tagDatastore}, Access: []string{"host network"}, Needs: []*probe.Check{NodeUplink}, Run: datastoreLatency, Limit: 10 * time.Second,
	Doc: `The API server's service address, as pods reach it, and each API server behind it, as the node reaches it: five connections each, with the time for TCP, TLS and the first answer.
ok: all answered. warn: some did not; or what a start of calico-node makes of calls, one after the other, would take more than half of the time its liveness or startup probe allows. fail: none answered, and how the connection failed; or that start-up would take longer than the probe allows, so calico-node is killed again and again.
When the endpoints answer and the service address does not, kube-proxy's rules on this node are what is broken.
An answer without rights (401, 403) is an answer.`,
}

// Facts of datastore-latency.
const (
	FactConnect  probe.Fact = "connect_ms" // TCP, median
	FactTLS      probe.Fact = "tls_ms"     // handshake, median
	FactAnswer   probe.Fact = "answer_ms"  // from request to first byte, median
	FactWorst    probe.Fact = "worst_ms"   // all of it, worst
	FactAnswered probe.Fact = "answered"   // tries
	FactTries    probe.Fact = "tries"      // tries
	FactStartup  probe.Fact = "startup_s"  // what calico-node's calls would take at this distance
	FactBudget   probe.Fact = "budget_s"   // what its probe allows
)

const (
	latencyTries = 5
	// startupCalls is about how many calls one after the other a start of calico-node
	// makes with the Kubernetes datastore, between 12 and 20 (startup.go, tunnel
	// addresses).
	startupCalls = 20
)

// trip is how long one connection took.
type trip struct{ connect, handshake, answer time.Duration }

func (t trip) whole() time.Duration { return t.connect + t.handshake + t.answer }

func datastoreLatency(ctx context.Context, p *probe.Pass) {
	targets := p.Of(probe.KindDatastore)
	if len(targets) == 0 {
		p.Report(gap(p, probe.KindDatastore, "no address of the API server is known"))
		return
	}
	budget := time.Duration(0)
	if set := p.Of(probe.KindCalico); len(set) > 0 {
		if s, err := strconv.Atoi(set[0].Attrs[probe.AttrBudget]); err == nil {
			budget = time.Duration(s) * time.Second
		}
	}
	each(targets, func(t probe.Target) {
		addr := net.JoinHostPort(t.Addr.String(), strconv.Itoa(t.Port))
		one, limit, cancel := part(ctx, 4)
		defer cancel()
		var trips []trip
		var last error
		for range latencyTries {
			took, err := travel(one, addr)
			if err != nil {
				last = err
				if one.Err() != nil {
					break
				}
				continue
			}
			trips = append(trips, took)
		}
		r, cut := cutShort(ctx, last)
		if last == nil || !cut {
			r = distance(trips, last, limit, budget, addr)
		}
		p.Report(r.On(t.Name+" "+addr).With(FactTries, latencyTries).With(FactAnswered, len(trips)))
	})
}

func distance(trips []trip, last error, limit, budget time.Duration, addr string) probe.Result {
	if len(trips) == 0 {
		return noAnswer(last, addr, limit)
	}
	median := func(of func(trip) time.Duration) time.Duration {
		all := make([]time.Duration, len(trips))
		for i, t := range trips {
			all[i] = of(t)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	connect := median(func(t trip) time.Duration { return t.connect })
	handshake := median(func(t trip) time.Duration { return t.handshake })
	answer := median(func(t trip) time.Duration { return t.answer })
	worst := slices.MaxFunc(trips, func(a, b trip) int { return int(a.whole() - b.whole()) }).whole()
	// The calls share connections: what counts is the answer, or the way there and
	// back where that is longer.
	startup := startupCalls * max(answer, connect)
	ms := func(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }
	r := probe.Found(probe.OK, "TCP %s, TLS %s, answer %s (median of %d), worst of all %s", ms(connect), ms(handshake), ms(answer), len(trips), ms(worst))
	switch {
	case budget > 0 && startup > budget:
		r.Status = probe.Fail
		r.Saw += fmt.Sprintf("; at this distance a start of calico-node needs about %v, and its probe allows %v", startup.Round(time.Second), budget)
	case budget > 0 && startup > budget/2:
		r.Status = probe.Warn
		r.Saw += fmt.Sprintf("; at this distance a start of calico-node needs about %v of the %v its probe allows", startup.Round(time.Second), budget)
	case len(trips) < latencyTries && last != nil:
		r.Status = probe.Warn
		r.Saw += fmt.Sprintf("; %d of %d tries were not answered: %s", latencyTries-len(trips), latencyTries, probe.Reason(last))
	}
	r = r.With(FactConnect, milliseconds(connect)).With(FactTLS, milliseconds(handshake)).With(FactAnswer, milliseconds(answer)).With(FactWorst, milliseconds(worst))
	if budget > 0 {
		r = r.With(FactBudget, int(budget.Seconds())).With(FactStartup, startup.Seconds())
	}
	return r
}

// travel makes one connection and one request. Any answer will do.
func travel(ctx context.Context, addr string) (trip, error) {
	var t trip
	var began, sent time.Time
	trace := &httptrace.ClientTrace{
		ConnectStart:         func(string, string) { began = time.Now() },
		ConnectDone:          func(string, string, error) { t.connect = time.Since(began) },
		TLSHandshakeStart:    func() { began = time.Now() },
		TLSHandshakeDone:     func(tls.ConnectionState, error) { t.handshake = time.Since(began) },
		WroteRequest:         func(httptrace.WroteRequestInfo) { sent = time.Now() },
		GotFirstResponseByte: func() { t.answer = time.Since(sent) },
	}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodGet, "https://"+addr+"/version", nil)
	if err != nil {
		return trip{}, fmt.Errorf("asking %s: %w", addr, err)
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // no secret is sent
		DialContext:       (&net.Dialer{}).DialContext,
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return trip{}, fmt.Errorf("asking %s: %w", addr, err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody)); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return trip{}, fmt.Errorf("reading the answer of %s: %w", addr, err)
	}
	return t, nil
}
