package ask

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// datastoreLatencyCheck binds datastore.DatastoreLatency to the function that runs it.
var datastoreLatencyCheck = answers.To(datastore.DatastoreLatency, datastoreLatency)

// Facts of datastore-latency.
const (
	factTLS probe.Fact = "tls_ms" // TLS handshake, median

	factWorst    probe.Fact = "worst_ms" // the whole request, slowest
	factAnswered probe.Fact = "answered" // number of attempts that were answered
	factTries    probe.Fact = "tries"    // number of attempts
)

func datastoreLatency(ctx context.Context, p *probe.Pass) {
	targets := p.Of(probe.KindDatastore)
	if len(targets) == 0 {
		p.Report(node.Gap(p, probe.KindDatastore, "the API server's address is unknown"))
		return
	}
	now := p.Now
	if now.IsZero() {
		now = time.Now()
	}
	if slices.ContainsFunc(targets, func(t probe.Target) bool { return t.Name == node.NameEtcd }) {
		etcdCertificates(p, now)
	}
	node.Each(targets, func(t probe.Target) {
		one, limit, cancel := node.Part(ctx, 4)
		defer cancel()
		trips, tried, addr, err := node.Travels(one, p.Host, t)
		r, cut := node.CutShort(ctx, err)
		if err == nil || !cut {
			r = latencyResult(trips, tried, err, limit, addr)
			if len(trips) > 0 {
				last := trips[len(trips)-1]
				if t.Name == node.NameEtcd {
					r = withEtcdAnswer(r, last)
				} else {
					r = withAPIAnswer(r, trips)
				}
				r = withExpiry(r, last.Server, now)
			}
		}
		if by := t.Attrs[probe.AttrSetBy]; by != "" {
			r.Saw += "; set by " + by
			r = r.With(datastore.FactSetBy, by)
		}
		if slice := t.Attrs[probe.AttrSlice]; slice != "" {
			r.Saw += "; its EndpointSlice " + slice + " was not created by an API server"
			r = r.With(datastore.FactSlice, slice)
		}
		p.Report(node.About(r, t).On(t.Name+" "+addr).With(factTries, tried).With(factAnswered, len(trips)).
			With(probe.FactRole, t.Name).With(probe.FactAddress, addr))
	})
}

func latencyResult(trips []node.Trip, tried int, last error, limit time.Duration, addr string) probe.Result {
	if len(trips) == 0 {
		if _, alert := node.AlertOf(last); alert != nil {
			return abortedResult(alert)
		}
		return node.NoAnswer(last, addr, limit)
	}
	connect := node.Median(trips, func(t node.Trip) time.Duration { return t.Connect })
	handshake := node.Median(trips, func(t node.Trip) time.Duration { return t.Handshake })
	answer := node.Median(trips, func(t node.Trip) time.Duration { return t.Answer })
	worst := slices.MaxFunc(trips, func(a, b node.Trip) int { return int(a.Whole() - b.Whole()) }).Whole()
	ms := func(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }
	r := probe.Found(probe.OK, "TCP %s, TLS %s, answer %s (median of %d), slowest %s", ms(connect), ms(handshake),
		ms(answer), len(trips), ms(worst))
	if last != nil {
		r.Status = probe.Warn
		r.Saw += fmt.Sprintf("; %d of %d attempts failed: %s", tried-len(trips), tried, probe.Reason(last))
	}
	return r.With(probe.FactConnect, node.Milliseconds(connect)).With(factTLS, node.Milliseconds(handshake)).
		With(datastore.FactAnswer, node.Milliseconds(answer)).With(factWorst, node.Milliseconds(worst))
}

// withAPIAnswer adds the answer from the API server, or from a proxy in front of it. The status
// codes 401 and 403 count as answers.
func withAPIAnswer(r probe.Result, trips []node.Trip) probe.Result {
	ill := slices.DeleteFunc(slices.Clone(trips),
		func(t node.Trip) bool { return t.Page.Code < http.StatusInternalServerError })
	if len(ill) == 0 {
		return r
	}
	r.Status = probe.Warn
	if len(ill) == len(trips) {
		r.Status = probe.Fail
	}
	page := ill[len(ill)-1].Page
	r.Saw += fmt.Sprintf("; %d of %d answers were %d: %.100s", len(ill), len(trips), page.Code,
		complaint(string(page.Body)))
	return r.With(probe.FactCode, page.Code).With(probe.FactReason, "unhealthy")
}

// complaint returns the line of an answer that shows the error. In the API server's list, that is the first line
// that begins with [-]. Otherwise, it is the first line.
func complaint(body string) string {
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "[-]") {
			return strings.TrimSpace(line)
		}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(body), "\n")
	return first
}

// withEtcdAnswer adds etcd's answer.
func withEtcdAnswer(r probe.Result, last node.Trip) probe.Result {
	var health struct{ Health, Reason string }
	switch err := json.Unmarshal(last.Page.Body, &health); {
	case errors.Is(last.Refused, node.ErrNoCertificate):
		r.Saw += "; etcd requires a client certificate, which this probe cannot read"
	case last.Refused != nil:
		r.Status = probe.Fail
		r.Saw += fmt.Sprintf("; etcd rejects the certificate of Calico's CNI plugin: %v", last.Refused)
		r = r.With(probe.FactReason, "certificate-refused")
	case err == nil && health.Health == "false", last.Page.Code == http.StatusServiceUnavailable:
		r.Status = probe.Fail
		r.Saw += fmt.Sprintf("; etcd reports that it is unhealthy: %.100s", health.Reason)
		r = r.With(probe.FactReason, "unhealthy")
	case err == nil && health.Health == "true":
		r.Saw += "; etcd reports that it is healthy"
	}
	return r
}

// withExpiry evaluates the dates of the certificate that a server presented.
func withExpiry(r probe.Result, c *x509.Certificate, now time.Time) probe.Result {
	if c == nil {
		return r
	}
	s, until := node.Lasts(c, now)
	if s == probe.OK {
		return r
	}
	if s == probe.Fail || r.Status == probe.OK {
		r.Status = s
	}
	r.Saw += "; the server's certificate " + until
	return r.With(probe.FactExpires, c.NotAfter.UTC().Format(time.RFC3339))
}

// etcdCertificates reports on the files with which Calico's CNI plugin authenticates to etcd, if they exist.
func etcdCertificates(p *probe.Pass, now time.Time) {
	for _, name := range []string{"etcd-cert", "etcd-ca"} {
		text, err := p.Host.ReadFile(node.EtcdFiles + name)
		if err != nil {
			continue // etcd does not use TLS, or the files are not visible from here
		}
		c, err := certificateIn(text)
		if err != nil {
			p.Report(probe.Failed(err).On(node.EtcdFiles + name))
			continue
		}
		s, until := node.Lasts(c, now)
		p.Report(probe.Found(s, "the certificate of Calico's CNI plugin for etcd %s", until).On(node.EtcdFiles+name).
			With(probe.FactExpires, c.NotAfter.UTC().Format(time.RFC3339)))
	}
}

// certificateIn returns the certificate that expires last among those in a file. A file of CAs may
// contain expired certificates.
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
		return nil, errors.New("the file contains no certificate")
	}
	return last, nil
}

// abortedResult returns the result for a server that closes the connection before it answers.
func abortedResult(alert error) probe.Result {
	return probe.Found(probe.Fail, "accepts the connection and aborts the TLS handshake: %v", alert).
		With(probe.FactReason, "alert")
}
