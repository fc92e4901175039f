package do

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// dialling holds the arguments of dial.
type dialling tools.DialArgs

// dial opens a connection.
func dial(ctx context.Context, j *probe.Job, a *tools.DialArgs) probe.Result {
	if a.Socket != "" {
		return dialling(*a).unix(ctx, j)
	}
	return dialling(*a).network(ctx, j)
}

// unix dials a socket on the node.
func (d dialling) unix(ctx context.Context, j *probe.Job) probe.Result {
	one, cancel := context.WithTimeout(ctx, d.Wait)
	defer cancel()
	began := time.Now()
	conn, err := j.Host.Dial(one, d.Socket)
	if errors.Is(err, probe.ErrNotVisible) {
		return unread(err)
	}
	if err == nil {
		took := time.Since(began)
		conn.Close()
		j.Say("connected to %s in %s", d.Socket, short(took))
		return probe.Found(probe.OK, "%s accepts connections", d.Socket)
	}
	failures := map[string]string{
		"refused": "the socket exists but nothing listens: the daemon is dead or restarting",
		"missing": "no such socket",
		"timeout": "the socket exists but its queue is full: no connection was accepted within " + short(d.Wait),
	}
	reason := probe.Reason(err)
	switch {
	case ctx.Err() != nil:
		return probe.Found(probe.Unknown, "stopped before %s answered", d.Socket)
	case failures[reason] != "":
		return probe.Found(probe.Fail, "%s: %s", d.Socket, failures[reason]).With(probe.FactReason, reason)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return probe.Found(probe.Unknown, "%s: %v", d.Socket, err).With(probe.FactReason, reason)
}

// network connects to a host's addresses in turn, until one of them accepts.
func (d dialling) network(ctx context.Context, j *probe.Job) probe.Result {
	addrs := []netip.Addr{d.Addr}
	if !d.Addr.IsValid() {
		var by string
		var r probe.Result
		if addrs, by, r = resolve(ctx, j, d.Host); len(addrs) == 0 {
			return r
		}
		texts := make([]string, len(addrs))
		for i, a := range addrs {
			texts[i] = a.String()
		}
		j.Say("%s is %s, by %s", d.Host, strings.Join(texts, ", "), by)
	}
	var r probe.Result
	for i, a := range addrs {
		if i > 0 && ctx.Err() != nil {
			break
		}
		to := netip.AddrPortFrom(a, d.Port)
		if d.UDP {
			r = d.datagram(ctx, j, to)
		} else {
			r = d.stream(ctx, j, to)
		}
		if r.Status == probe.OK {
			return r
		}
		if i+1 < len(addrs) {
			j.Say("%s", r.Saw)
		}
	}
	return r
}

func (d dialling) stream(ctx context.Context, j *probe.Job, to netip.AddrPort) probe.Result {
	began := time.Now()
	conn, r := reach.Dial(ctx, to, d.Wait)
	if conn == nil {
		return r
	}
	defer conn.Close()
	j.Say("connected to %s in %s, from %s", to, short(time.Since(began)), conn.LocalAddr())
	r = probe.Found(probe.OK, "%s accepts connections", to)
	if d.TLS {
		if r = d.shake(ctx, j, conn, to); r.Status == probe.Unknown || d.Page == "" {
			return r
		}
	}
	conn.Close()
	if d.Page == "" {
		return r
	}
	got := d.get(ctx, j, to)
	if got.Status == probe.OK && r.Status != probe.OK { // an answer does not make the certificate valid
		return r
	}
	return got
}

// shake performs a TLS handshake without a client certificate.
func (d dialling) shake(ctx context.Context, j *probe.Job, conn net.Conn, to netip.AddrPort) probe.Result {
	one, cancel := context.WithTimeout(ctx, d.Wait)
	defer cancel()
	name := cmp.Or(d.SNI, d.Host)
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: name}) // its dates are checked below
	began := time.Now()
	if err := secure.HandshakeContext(one); err != nil {
		state := secure.ConnectionState()
		if len(state.PeerCertificates) == 0 {
			return noShake(ctx, to, err, d.Wait)
		}
		j.Say("the handshake did not complete: %v", err) // a server that requires a certificate, with TLS 1.2
	}
	state := secure.ConnectionState()
	j.Say("%s, %s, in %s", tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite),
		short(time.Since(began)))
	now := time.Now()
	for i, c := range state.PeerCertificates {
		describe(j, i, c, now)
	}
	leaf := state.PeerCertificates[0]
	if why := invalid(leaf, now); why != "" {
		return probe.Found(probe.Fail, "%s shows a certificate that %s by this node's clock", to, why)
	}
	if err := leaf.VerifyHostname(name); err != nil {
		j.Say("the certificate is not valid for %s, the requested name", name)
	}
	return probe.Found(probe.OK, "%s speaks TLS, its certificate is valid until %s", to,
		leaf.NotAfter.UTC().Format(time.DateOnly))
}

func noShake(ctx context.Context, to netip.AddrPort, err error, limit time.Duration) probe.Result {
	reason := probe.Reason(err)
	var r probe.Result
	switch {
	case ctx.Err() != nil:
		return probe.Found(probe.Unknown, "stopped in the TLS handshake with %s", to)
	case errors.As(err, new(tls.RecordHeaderError)):
		r = probe.Found(probe.Fail, "%s accepts the connection but does not speak TLS", to)
	case reason == "timeout":
		r = probe.Found(probe.Fail, "%s accepts the connection, but no TLS handshake within %s", to, short(limit))
	case reason == "reset", reason == "closed":
		r = probe.Found(probe.Fail, "%s accepts the connection and closes it during the TLS handshake", to)
	default:
		r = probe.Found(probe.Fail, "%s accepts the connection, but the TLS handshake fails: %v", to, err)
	}
	return r.With(probe.FactReason, reason)
}

// describe prints one certificate from a chain.
func describe(j *probe.Job, i int, c *x509.Certificate, now time.Time) {
	j.Say("certificate %d", i+1)
	j.Say("  subject  %s", c.Subject.String())
	j.Say("  issuer   %s", c.Issuer.String())
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	if len(names) > 0 {
		j.Say("  for      %s", strings.Join(names, ", "))
	}
	state := "valid now, " + probe.Age(c.NotAfter.Sub(now)) + " left"
	if why := invalid(c, now); why != "" {
		state = why
	}
	j.Say("  valid    %s to %s: %s", c.NotBefore.UTC().Format(time.RFC3339), c.NotAfter.UTC().Format(time.RFC3339),
		state)
}

// invalid explains why a certificate is not valid at the given time. It returns "" if the certificate is valid.
func invalid(c *x509.Certificate, now time.Time) string {
	switch {
	case now.Before(c.NotBefore):
		return "is not valid yet, for another " + probe.Age(c.NotBefore.Sub(now))
	case now.After(c.NotAfter):
		return "expired " + probe.Age(now.Sub(c.NotAfter)) + " ago"
	}
	return ""
}

// datagram sends an empty packet and waits for a reply.
func (d dialling) datagram(ctx context.Context, j *probe.Job, to netip.AddrPort) probe.Result {
	one, cancel := context.WithTimeout(ctx, d.Wait)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(one, "udp", to.String())
	if err == nil {
		defer conn.Close()
		defer context.AfterFunc(one, func() { conn.Close() })()
		_, err = conn.Write(nil)
	}
	began := time.Now()
	if err == nil {
		j.Say("sent an empty packet to %s, from %s", to, conn.LocalAddr())
		_, err = conn.Read(make([]byte, 1))
	}
	reason := probe.Reason(err)
	switch {
	case err == nil:
		r := probe.Found(probe.OK, "%s answers by UDP, in %s", to, short(time.Since(began)))
		j.Say("%s", r.Saw)
		return r
	case ctx.Err() != nil:
		return probe.Found(probe.Unknown, "stopped before %s answered", to)
	case one.Err() != nil:
		return probe.Found(probe.Unknown, "no reply from %s within %s, which proves nothing over UDP",
			to, short(d.Wait))
	case reason == "refused":
		return probe.Found(probe.Fail,
			"%s is refused by ICMP (port unreachable): nothing listens there, or a firewall rejects it", to).
			With(probe.FactReason, reason)
	case reason != "error" && node.Refusal(reason) != "":
		return probe.Found(probe.Fail, "%s cannot be reached: %s", to, node.Refusal(reason)).
			With(probe.FactReason, reason)
	}
	return probe.Failed(err).With(probe.FactReason, reason)
}
