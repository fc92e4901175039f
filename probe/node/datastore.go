package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/httpget"
)

const (
	latencyTries = 5
	// certificateSoon is the time before a certificate's expiry at which the check starts to warn. It is long enough
	// for a change window. If a certificate is valid for a month or less, programs renew it before the last tenth of
	// that time.
	certificateSoon = 14 * 24 * time.Hour
	NameEtcd        = "etcd" // of a KindDatastore target
	EtcdFiles       = "/etc/cni/net.d/calico-tls/"
)

// Trip describes how long one connection took, and its outcome.
type Trip struct {
	Connect, Handshake, Answer time.Duration
	Page                       httpget.Page
	Server                     *x509.Certificate // nil if the connection does not use TLS
	Refused                    error             // the server's error if it requires a certificate and got none
}

func (t Trip) Whole() time.Duration { return t.Connect + t.Handshake + t.Answer }

// Travels opens connections to one target one at a time, as many as time allows. The error is from the last connection
// that failed. addr is the destination.
func Travels(ctx context.Context, h *probe.Host, t probe.Target) (trips []Trip, tried int, addr string, last error) {
	addr = net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
	if !t.Addr.IsValid() {
		found, err := Resolve(ctx, h, t.Host)
		if err != nil || len(found) == 0 {
			return nil, 0, addr, fmt.Errorf("resolving %s: %w", t.Host, err)
		}
		t.Addr = found[0]
	}
	addr = netip.AddrPortFrom(t.Addr, uint16(t.Port)).String()
	url, own := "https://"+addr+"/readyz", tls.Certificate{}
	if t.Name == NameEtcd {
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

// Readyz connects to an API server once, in the same way as travel.
func Readyz(ctx context.Context, at netip.AddrPort) (Trip, error) {
	return travel(ctx, "https://"+at.String()+"/readyz", tls.Certificate{})
}

// Median returns the median of one value over all trips.
func Median(trips []Trip, of func(Trip) time.Duration) time.Duration {
	all := make([]time.Duration, len(trips))
	for i, t := range trips {
		all[i] = of(t)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// Lasts reports whether a certificate is not valid yet, has expired, or will expire soon.
func Lasts(c *x509.Certificate, now time.Time) (probe.Status, string) {
	left := c.NotAfter.Sub(now)
	end := c.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case now.Before(c.NotBefore):
		return probe.Fail, "is not valid before " + c.NotBefore.UTC().Format(time.RFC3339)
	case left < 0:
		return probe.Fail, "expired on " + end
	case left < min(certificateSoon, c.NotAfter.Sub(c.NotBefore)/10):
		return probe.Warn, "expires on " + end
	}
	return probe.OK, "is valid until " + end
}

// etcdCertificate returns the certificate that the CNI plugin presents to etcd, or nil if the
// certificate is not visible.
func etcdCertificate(h *probe.Host) tls.Certificate {
	cert, err := h.ReadFile(EtcdFiles + "etcd-cert")
	if err != nil {
		return tls.Certificate{}
	}
	key, err := h.ReadFile(EtcdFiles + "etcd-key")
	if err != nil {
		return tls.Certificate{}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{} // etcd's answer shows how it treats a client without a certificate
	}
	return pair
}

// ErrNoCertificate reports that a server requires a certificate but the probe did not present one.
var ErrNoCertificate = errors.New("no certificate was presented")

// aboutCertificates lists the TLS alerts (RFC 8446, 6.2) with which a server may abort a handshake after it has
// requested a certificate. Some alerts are about the certificate that the client presented. If there was none, the
// alert is certificate_required or, up to TLS 1.2, handshake_failure.
var aboutCertificates = []tls.AlertError{40, 42, 43, 44, 45, 46, 48, 49, 116}

// AlertOf returns the alert with which a server ended a connection, or nil if there was no alert. wish reports
// whether the alert may be about a missing certificate.
func AlertOf(err error) (wish bool, alert error) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return false, nil
	}
	// The error has an unexported type from crypto/tls, but the same text as the exported type.
	return slices.ContainsFunc(aboutCertificates,
		func(a tls.AlertError) bool { return a.Error() == op.Err.Error() }), op.Err
}

// travel opens one connection and sends one request. Any answer counts, even if the server requires another
// certificate. If a server does not use our protocol, its answer does not count.
func travel(ctx context.Context, url string, own tls.Certificate) (Trip, error) {
	var t Trip
	var began, sent time.Time
	requested := false
	trace := &httptrace.ClientTrace{
		ConnectStart:      func(string, string) { began = time.Now() },
		ConnectDone:       func(string, string, error) { t.Connect = time.Since(began) },
		TLSHandshakeStart: func() { began = time.Now() },
		TLSHandshakeDone: func(state tls.ConnectionState, _ error) {
			t.Handshake = time.Since(began)
			if len(state.PeerCertificates) > 0 {
				t.Server = state.PeerCertificates[0]
			}
		},
		WroteRequest:         func(httptrace.WroteRequestInfo) { sent = time.Now() },
		GotFirstResponseByte: func() { t.Answer = time.Since(sent) },
	}
	page, err := httpget.Get(httptrace.WithClientTrace(ctx, trace), url,
		httpget.Options{Certificate: func() tls.Certificate {
			requested = true
			return own
		}})
	wish, alert := AlertOf(err)
	switch {
	case wish && requested:
		t.Refused, t.Answer = alert, t.Handshake // up to TLS 1.2, this includes the alert
		if !sent.IsZero() {
			t.Answer = time.Since(sent)
		}
		if len(own.Certificate) == 0 {
			t.Refused = ErrNoCertificate
		}
	case err != nil:
		return Trip{}, err
	}
	t.Page = page
	return t, nil
}
