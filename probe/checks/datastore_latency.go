package checks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/httpget"
)

// DatastoreLatency measures the way to Calico's datastore from this very node. In
// the field a far-away node was killed a minute after each start: its start-up
// took more round trips than the liveness budget had time for (startup-budget).
var DatastoreLatency = &probe.Check{
	ID: "datastore-latency", Asks: "does Calico's datastore answer this node, and how far is it?", From: probe.FromNode,
	Tags: []string{tagNetwork, tagDatastore}, Access: []string{"host network", "etc/cni"},
	Needs: []string{probe.CheckNodeUplink}, Run: datastoreLatency, Limit: 10 * time.Second,
	Doc: `The API server's service address, as pods reach it, and each API server behind it, as the node reaches it; and each endpoint of etcd, where Calico keeps its data there: and the address that calico-node is told instead (ConfigMap kubernetes-services-endpoint, or its own environment): five connections each, with the time for TCP, TLS and the first answer. The API server is asked whether it is ready (/readyz), which it is not without its etcd. etcd is shown the client certificate that Calico's CNI plugin uses (/etc/cni/net.d/calico-tls), and asked whether it is healthy.
ok: all answered. warn: some attempts failed; or a certificate expires within two weeks. fail: none answered, and how the connection failed; the API server, or a load balancer before it, answers with 5xx; etcd is not healthy, or rejects the certificate; a certificate has expired.
When the endpoints answer and the service address does not, kube-proxy's rules on this node are what is broken.
401 and 403 count as answers, and so does etcd's request for a client certificate where this probe cannot read one.`,
}

// Facts of datastore-latency.
const (
	FactConnect  probe.Fact = "connect_ms" // TCP, median
	FactTLS      probe.Fact = "tls_ms"     // handshake, median
	FactAnswer   probe.Fact = "answer_ms"  // from request to first byte, median
	FactWorst    probe.Fact = "worst_ms"   // all of it, worst
	FactAnswered probe.Fact = "answered"   // tries
	FactTries    probe.Fact = "tries"      // tries
	FactSetBy    probe.Fact = "set_by"     // what tells calico-node to look for the API server there
	FactSlice    probe.Fact = "slice"      // EndpointSlice of an API server's address, where none of theirs
	FactRole     probe.Fact = "role"       // what was asked: the service's address, a server behind it, or another word
)

// Roles of what datastore-latency, dns-cluster and dns-external ask.
const (
	RoleService  = "service"
	RoleEndpoint = "endpoint"
	RoleNode     = "resolv.conf" // a name server of the node's own

	RoleConfigured = probe.NameConfigured // where calico-node is told to look for the API server
)

const (
	latencyTries = 5
	// certificateSoon is how long before its end a certificate is worth a warning:
	// time enough for a change window. Those that live for a month and less are
	// renewed by programs, which do so before the last tenth.
	certificateSoon = 14 * 24 * time.Hour
	nameEtcd        = "etcd" // of a KindDatastore target
	etcdFiles       = "/etc/cni/net.d/calico-tls/"
)

// trip is how long one connection took, and what came of it.
type trip struct {
	connect, handshake, answer time.Duration
	page                       httpget.Page
	server                     *x509.Certificate // nil without TLS
	refused                    error             // how the server ended the conversation for want of a certificate
}

func (t trip) whole() time.Duration { return t.connect + t.handshake + t.answer }

func datastoreLatency(ctx context.Context, p *probe.Pass) {
	targets := p.Of(probe.KindDatastore)
	if len(targets) == 0 {
		p.Report(gap(p, probe.KindDatastore, "no address of the API server is known"))
		return
	}
	now := p.Now
	if now.IsZero() {
		now = time.Now()
	}
	if slices.ContainsFunc(targets, func(t probe.Target) bool { return t.Name == nameEtcd }) {
		etcdCertificates(p, now)
	}
	each(targets, func(t probe.Target) {
		one, limit, cancel := part(ctx, 4)
		defer cancel()
		trips, tried, addr, err := travels(one, p.Host, t)
		r, cut := cutShort(ctx, err)
		if err == nil || !cut {
			r = distance(trips, tried, err, limit, addr)
			if len(trips) > 0 {
				last := trips[len(trips)-1]
				if t.Name == nameEtcd {
					r = etcdSays(r, last)
				} else {
					r = apiSays(r, trips)
				}
				r = dated(r, last.server, now)
			}
		}
		if by := t.Attrs[probe.AttrSetBy]; by != "" {
			r.Saw += "; set by " + by
			r = r.With(FactSetBy, by)
		}
		if slice := t.Attrs[probe.AttrSlice]; slice != "" {
			r.Saw += "; it is in EndpointSlice " + slice + ", which no API server made"
			r = r.With(FactSlice, slice)
		}
		p.Report(about(r, t).On(t.Name+" "+addr).With(FactTries, tried).With(FactAnswered, len(trips)).
			With(FactRole, t.Name).With(FactAddress, addr))
	})
}

// travels makes the connections to one target, one after the other, as many as
// there is time for. The error is that of the last one that failed; addr is where
// they went.
func travels(ctx context.Context, h *probe.Host, t probe.Target) (trips []trip, tried int, addr string, last error) {
	addr = net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
	if !t.Addr.IsValid() {
		found, err := resolve(ctx, h, t.Host)
		if err != nil || len(found) == 0 {
			return nil, 0, addr, fmt.Errorf("resolving %s: %w", t.Host, err)
		}
		t.Addr = found[0]
	}
	addr = netip.AddrPortFrom(t.Addr, uint16(t.Port)).String()
	url, own := "https://"+addr+"/readyz", tls.Certificate{}
	if t.Name == nameEtcd {
		own = etcdCertificate(h)
		if t.Attrs[probe.AttrScheme] == "http" {
			url = "http://" + addr
		} else {
			url = "https://" + addr
		}
		url += "/health"
	}
	for tried < latencyTries && ctx.Err() == nil {
		tried++
		took, err := travel(ctx, url, own)
		if err != nil {
			last = err
			continue
		}
		trips = append(trips, took)
	}
	return trips, tried, addr, last
}

// median is that of some part of the trips.
func median(trips []trip, of func(trip) time.Duration) time.Duration {
	all := make([]time.Duration, len(trips))
	for i, t := range trips {
		all[i] = of(t)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func distance(trips []trip, tried int, last error, limit time.Duration, addr string) probe.Result {
	if len(trips) == 0 {
		if _, alert := alertOf(last); alert != nil {
			return alerted(alert)
		}
		return noAnswer(last, addr, limit)
	}
	connect := median(trips, func(t trip) time.Duration { return t.connect })
	handshake := median(trips, func(t trip) time.Duration { return t.handshake })
	answer := median(trips, func(t trip) time.Duration { return t.answer })
	worst := slices.MaxFunc(trips, func(a, b trip) int { return int(a.whole() - b.whole()) }).whole()
	ms := func(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }
	r := probe.Found(probe.OK, "TCP %s, TLS %s, answer %s (median of %d), slowest %s", ms(connect), ms(handshake),
		ms(answer), len(trips), ms(worst))
	if last != nil {
		r.Status = probe.Warn
		r.Saw += fmt.Sprintf("; %d of %d attempts failed: %s", tried-len(trips), tried, probe.Reason(last))
	}
	return r.With(FactConnect, milliseconds(connect)).With(FactTLS, milliseconds(handshake)).
		With(FactAnswer, milliseconds(answer)).With(FactWorst, milliseconds(worst))
}

// apiSays adds what an API server that answered, or what stands before it, says of
// itself. That it wants to know who asks (401, 403) is an answer like another.
func apiSays(r probe.Result, trips []trip) probe.Result {
	ill := slices.DeleteFunc(slices.Clone(trips),
		func(t trip) bool { return t.page.Code < http.StatusInternalServerError })
	if len(ill) == 0 {
		return r
	}
	r.Status = probe.Warn
	if len(ill) == len(trips) {
		r.Status = probe.Fail
	}
	page := ill[len(ill)-1].page
	r.Saw += fmt.Sprintf("; %d of %d answers were %d: %.100s", len(ill), len(trips), page.Code,
		complaint(string(page.Body)))
	return r.With(FactCode, page.Code).With(probe.FactReason, "unhealthy")
}

// complaint is the line of an answer that says what is wrong: of the API server's
// list the first that begins with [-], of another the first.
func complaint(body string) string {
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "[-]") {
			return strings.TrimSpace(line)
		}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(body), "\n")
	return first
}

// etcdSays adds what an etcd that answered says of itself.
func etcdSays(r probe.Result, last trip) probe.Result {
	var health struct{ Health, Reason string }
	switch err := json.Unmarshal(last.page.Body, &health); {
	case errors.Is(last.refused, errNoCertificate):
		r.Saw += "; it asks for a client certificate, which this probe cannot read"
	case last.refused != nil:
		r.Status = probe.Fail
		r.Saw += fmt.Sprintf("; it rejects the certificate of Calico's CNI plugin: %v", last.refused)
		r = r.With(probe.FactReason, "certificate-refused")
	case err == nil && health.Health == "false", last.page.Code == http.StatusServiceUnavailable:
		r.Status = probe.Fail
		r.Saw += fmt.Sprintf("; it reports that it is not healthy: %.100s", health.Reason)
		r = r.With(probe.FactReason, "unhealthy")
	case err == nil && health.Health == "true":
		r.Saw += "; it reports that it is healthy"
	}
	return r
}

// dated judges the dates of the certificate a server showed.
func dated(r probe.Result, c *x509.Certificate, now time.Time) probe.Result {
	if c == nil {
		return r
	}
	s, until := lasts(c, now)
	if s == probe.OK {
		return r
	}
	if s == probe.Fail || r.Status == probe.OK {
		r.Status = s
	}
	r.Saw += "; its certificate " + until
	return r.With(FactExpires, c.NotAfter.UTC().Format(time.RFC3339))
}

// lasts tells whether a certificate has ended, or soon will.
func lasts(c *x509.Certificate, now time.Time) (probe.Status, string) {
	left := c.NotAfter.Sub(now)
	end := c.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case left < 0:
		return probe.Fail, "expired on " + end
	case left < min(certificateSoon, c.NotAfter.Sub(c.NotBefore)/10):
		return probe.Warn, "expires on " + end
	}
	return probe.OK, "is valid until " + end
}

// etcdCertificates reports on the files with which Calico's CNI plugin goes to
// etcd, where they are.
func etcdCertificates(p *probe.Pass, now time.Time) {
	for _, name := range []string{"etcd-cert", "etcd-ca"} {
		text, err := p.Host.ReadFile(etcdFiles + name)
		if err != nil {
			continue // an etcd without TLS, or not to be seen from here
		}
		c, err := certificateIn(text)
		if err != nil {
			p.Report(probe.Failed(err).On(etcdFiles + name))
			continue
		}
		s, until := lasts(c, now)
		p.Report(probe.Found(s, "the certificate of Calico's CNI plugin for etcd %s", until).On(etcdFiles+name).
			With(FactExpires, c.NotAfter.UTC().Format(time.RFC3339)))
	}
}

// certificateIn gives the certificate of a file that ends last: a file of
// authorities may keep some that are past.
func certificateIn(text []byte) (*x509.Certificate, error) {
	var last *x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate: %w", err)
		}
		if last == nil || c.NotAfter.After(last.NotAfter) {
			last = c
		}
	}
	if last == nil {
		return nil, errors.New("the file holds no certificate")
	}
	return last, nil
}

// etcdCertificate is what the CNI plugin shows to etcd; none when it is not seen.
func etcdCertificate(h *probe.Host) tls.Certificate {
	cert, err := h.ReadFile(etcdFiles + "etcd-cert")
	if err != nil {
		return tls.Certificate{}
	}
	key, err := h.ReadFile(etcdFiles + "etcd-key")
	if err != nil {
		return tls.Certificate{}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{} // etcd will say what it makes of a client without one
	}
	return pair
}

// errNoCertificate is a server's wish for a certificate where none was shown.
var errNoCertificate = errors.New("no certificate was shown")

// aboutCertificates are the alerts of TLS (RFC 8446, 6.2) with which a server may
// end a handshake in which it has asked for a certificate: those of the certificate
// shown, and for none shown certificate_required or, up to TLS 1.2,
// handshake_failure.
var aboutCertificates = []tls.AlertError{40, 42, 43, 44, 45, 46, 48, 49, 116}

// alertOf is the alert with which a server ended a conversation, nil when it did
// not; wish tells whether it may be one for want of a certificate.
func alertOf(err error) (wish bool, alert error) {
	var told *net.OpError
	if !errors.As(err, &told) || told.Op != "remote error" {
		return false, nil
	}
	// The type of the error is crypto/tls's own; its text is that of the exported one.
	return slices.ContainsFunc(aboutCertificates,
		func(a tls.AlertError) bool { return a.Error() == told.Err.Error() }), told.Err
}

// alerted is the result of a server that does not get as far as an answer.
func alerted(alert error) probe.Result {
	return probe.Found(probe.Fail, "accepts the connection and aborts the TLS handshake: %v", alert).
		With(probe.FactReason, "alert")
}

// travel makes one connection and one request. Any answer will do, also that the
// server wants another certificate; that it cannot speak with us is none.
func travel(ctx context.Context, url string, own tls.Certificate) (trip, error) {
	var t trip
	var began, sent time.Time
	asked := false
	trace := &httptrace.ClientTrace{
		ConnectStart:      func(string, string) { began = time.Now() },
		ConnectDone:       func(string, string, error) { t.connect = time.Since(began) },
		TLSHandshakeStart: func() { began = time.Now() },
		TLSHandshakeDone: func(state tls.ConnectionState, _ error) {
			t.handshake = time.Since(began)
			if len(state.PeerCertificates) > 0 {
				t.server = state.PeerCertificates[0]
			}
		},
		WroteRequest:         func(httptrace.WroteRequestInfo) { sent = time.Now() },
		GotFirstResponseByte: func() { t.answer = time.Since(sent) },
	}
	page, err := httpget.Get(httptrace.WithClientTrace(ctx, trace), url,
		httpget.Way{Certificate: func() tls.Certificate {
			asked = true
			return own
		}})
	wish, alert := alertOf(err)
	switch {
	case wish && asked:
		t.refused, t.answer = alert, t.handshake // up to TLS 1.2 the alert is part of that
		if !sent.IsZero() {
			t.answer = time.Since(sent)
		}
		if len(own.Certificate) == 0 {
			t.refused = errNoCertificate
		}
	case err != nil:
		return trip{}, err
	}
	t.page = page
	return t, nil
}
