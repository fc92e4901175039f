package ask

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// typhaReachCheck binds datastore.TyphaReach to the function that runs it.
var typhaReachCheck = answers.To(datastore.TyphaReach, typhaReach)

// factTLSSpoken is true if a server speaks TLS.
const factTLSSpoken probe.Fact = "tls"

func typhaReach(ctx context.Context, p *probe.Pass) {
	targets := p.Of(probe.KindTypha)
	if len(targets) == 0 {
		p.Report(node.Gap(p, probe.KindTypha, "this cluster has no Typha"))
		return
	}
	now := p.Now
	if now.IsZero() {
		now = time.Now()
	}
	answers := make([]probe.Result, len(targets))
	var all probe.Workers
	for i, t := range targets {
		all.Go(func() { answers[i] = reachTypha(ctx, net.JoinHostPort(t.Addr.String(), strconv.Itoa(t.Port)), now) })
	}
	all.Wait()
	dead := 0
	for _, r := range answers {
		if r.Status == probe.Fail {
			dead++
		}
	}
	for i, t := range targets {
		r := node.About(answers[i], t)
		if r.Status == probe.Fail && dead < len(targets) {
			r.Status = probe.Warn
			r.Saw += fmt.Sprintf("; %d of %d Typha instances do not answer", dead, len(targets))
		}
		p.Report(r.On(t.String()).With(probe.FactFamily, node.Family(t.Addr)))
	}
}

// reachTypha connects to a Typha instance and starts a TLS handshake. Typha requires a client certificate, which
// this probe does not have. Typha works if it requests the certificate and then sends an alert that the certificate
// is missing (node.AlertOf). Any other alert is a fault.
func reachTypha(ctx context.Context, addr string, now time.Time) probe.Result {
	one, limit, cancel := node.Part(ctx, 4)
	defer cancel()
	began := time.Now()
	var d net.Dialer
	conn, err := d.DialContext(one, "tcp", addr)
	if err != nil {
		if r, cut := node.CutShort(ctx, err); cut {
			return r
		}
		return node.NoAnswer(err, addr, limit)
	}
	defer conn.Close()
	took := time.Since(began)
	var shown *x509.Certificate
	requested := false
	client := tls.Client(conn, &tls.Config{
		InsecureSkipVerify: true, // no secret is sent, and only the certificate's dates are read
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			if len(raw) > 0 {
				shown, _ = x509.ParseCertificate(raw[0]) // nil: its dates stay unknown
			}
			return nil
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			requested = true
			return &tls.Certificate{}, nil
		},
	})
	err = client.HandshakeContext(one)
	aboutCertificate, alert := node.AlertOf(err)
	r := probe.Found(probe.OK, "accepts connections (%s) and speaks TLS", took.Round(10*time.Microsecond)).
		With(factTLSSpoken, true)
	switch reason := probe.Reason(err); {
	case alert != nil && (!requested || !aboutCertificate):
		return abortedResult(alert).With(factTLSSpoken, true)
	case err == nil, shown != nil:
	case errors.As(err, new(tls.RecordHeaderError)):
		r = probe.Found(probe.OK, "accepts connections (%s) and does not speak TLS", took.Round(10*time.Microsecond)).
			With(factTLSSpoken, false)
	case reason == "closed", reason == "reset":
		r = probe.Found(probe.Info,
			"accepts connections (%s) and closes them at a TLS handshake, as a Typha without TLS does",
			took.Round(10*time.Microsecond)).With(factTLSSpoken, false)
	case reason == "timeout":
		if r, cut := node.CutShort(ctx, err); cut {
			return r
		}
		return probe.Found(probe.Fail, "accepts the connection but does not answer within %v", limit).
			With(probe.FactReason, reason)
	default:
		return probe.Failed(fmt.Errorf("TLS handshake with %s: %w", addr, err))
	}
	return withExpiry(r, shown, now).With(probe.FactConnect, node.Milliseconds(took))
}
