package tools

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// Dial opens connections.
var Dial = &probe.Tool{
	Name: "dial", Usage: "[-u] [--tls] [--sni NAME] [--http PATH] [-t TIMEOUT] HOST:PORT | unix:PATH",
	Short: "open a connection: TCP, TLS, HTTP, UNIX",
	Doc: `Opens a connection, says how long that took and from which address, and hangs up.

  HOST:PORT    an address, a node's name (its InternalIP), or a name that the node's own
               /etc/hosts and name servers know; IPv6 in brackets: [fd00::1]:443
  unix:PATH    a socket of the node
  --tls        shakes hands, and shows the server's certificate: whose, by whom, for which
               names, and whether it is valid now. Nothing that is secret is sent, and the
               issuer is not judged
  --sni NAME   the name to ask for, instead of HOST; means --tls
  --http PATH  one GET without any credentials: status, headers, first lines; with --tls by
               HTTPS. Not by a UNIX socket, where it could read what is secret; and of a
               cloud's metadata (169.254.169.254 and any link-local address, by NAT64 too),
               which is the node's credentials, only the status, and which headers
  -u           UDP: an empty packet. What answers is there, an ICMP refusal is one, and
               silence says nothing
  -t TIMEOUT   3s by default

  dial 10.0.0.12:179
  dial --tls 10.96.0.1:443
  dial --http /liveness 127.0.0.1:9099
  dial unix:/run/containerd/containerd.sock

Fails when nothing accepts the connection, or the answer is an error (HTTP 400 and above, a
certificate that is not valid now).`,
	Parse: parseDial,
}

// dialling are the arguments of dial.
type dialling struct {
	text, host string
	port       uint16
	addr       netip.Addr // of host, when that is an address
	socket     string     // a path, "" = the network
	udp, tls   bool
	sni, page  string
	wait       time.Duration
}

func parseDial(args []string) (probe.ToolFunc, error) {
	var d dialling
	f := options("dial")
	f.BoolVar(&d.udp, "u", false, "")
	f.BoolVar(&d.tls, "tls", false, "")
	f.StringVar(&d.sni, "sni", "", "")
	f.StringVar(&d.page, "http", "", "")
	seconds(f, &d.wait, "t", 3*time.Second)
	rest, err := words(f, args)
	if err == nil {
		err = within("-t", d.wait, 10*time.Millisecond, time.Minute)
	}
	if err != nil {
		return nil, err
	}
	if len(rest) != 1 {
		return nil, errors.New("dial takes one HOST:PORT or unix:PATH: dial 10.0.0.12:179")
	}
	d.text, d.tls = rest[0], d.tls || d.sni != ""
	if name, ok := strings.CutPrefix(d.text, "unix:"); ok {
		if !path.IsAbs(name) {
			return nil, fmt.Errorf("unix: takes a path from the root: unix:/run/containerd/containerd.sock, not %q",
				name)
		}
		if d.page != "" || d.tls || d.udp {
			return nil, errors.New("a UNIX socket is dialled as it is: without --http, --tls and -u")
		}
		d.socket = path.Clean(name)
		return d.unix, nil
	}
	host, port, err := net.SplitHostPort(d.text)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || n == 0 || host == "" {
		return nil, fmt.Errorf("dial takes HOST:PORT, [IPv6]:PORT or unix:PATH, not %q", d.text)
	}
	d.host, d.port = host, uint16(n)
	if d.addr, err = netip.ParseAddr(host); err != nil {
		if _, ok := dns.IsDomainName(host); !ok || strings.ContainsAny(host, " /:@") {
			return nil, fmt.Errorf("%q is neither an address nor a name", host)
		}
	}
	d.addr = d.addr.Unmap()
	switch {
	case d.page != "" && (!strings.HasPrefix(d.page, "/") ||
		strings.ContainsFunc(d.page, func(r rune) bool { return r <= ' ' || r == 0x7f })):
		return nil, fmt.Errorf("--http takes a path: --http /liveness, not %q", d.page)
	case d.udp && (d.tls || d.page != ""):
		return nil, errors.New("-u goes without --tls and --http")
	}
	return d.network, nil
}

// unix dials a socket of the node.
func (d dialling) unix(ctx context.Context, j *probe.Job) probe.Result {
	one, cancel := context.WithTimeout(ctx, d.wait)
	defer cancel()
	began := time.Now()
	conn, err := j.Host.Dial(one, d.socket)
	if errors.Is(err, probe.ErrNotVisible) {
		return unread(err)
	}
	if err == nil {
		took := time.Since(began)
		conn.Close()
		j.Say("connected to %s in %s", d.socket, short(took))
		return probe.Found(probe.OK, "%s accepts connections", d.socket)
	}
	said := map[string]string{
		"refused": "the socket exists but nothing listens: the daemon is dead or restarting",
		"missing": "there is no such socket",
		"timeout": "the socket is there and its queue is full: no connection was accepted within " + short(d.wait),
	}
	reason := probe.Reason(err)
	switch {
	case ctx.Err() != nil:
		return probe.Found(probe.Unknown, "stopped before %s answered", d.socket)
	case said[reason] != "":
		return probe.Found(probe.Fail, "%s: %s", d.socket, said[reason]).With(probe.FactReason, reason)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return probe.Found(probe.Unknown, "%s: %v", d.socket, err).With(probe.FactReason, reason)
}

// network dials the addresses of a host in turn, until one takes the connection.
func (d dialling) network(ctx context.Context, j *probe.Job) probe.Result {
	addrs := []netip.Addr{d.addr}
	if !d.addr.IsValid() {
		var by string
		var r probe.Result
		if addrs, by, r = resolve(ctx, j, d.host); len(addrs) == 0 {
			return r
		}
		texts := make([]string, len(addrs))
		for i, a := range addrs {
			texts[i] = a.String()
		}
		j.Say("%s is %s, by %s", d.host, strings.Join(texts, ", "), by)
	}
	var r probe.Result
	for i, a := range addrs {
		if i > 0 && ctx.Err() != nil {
			break
		}
		to := netip.AddrPortFrom(a, d.port)
		if d.udp {
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
	conn, r := reach.Dial(ctx, to, d.wait)
	if conn == nil {
		return r
	}
	defer conn.Close()
	j.Say("connected to %s in %s, from %s", to, short(time.Since(began)), conn.LocalAddr())
	r = probe.Found(probe.OK, "%s accepts connections", to)
	if d.tls {
		if r = d.shake(ctx, j, conn, to); r.Status == probe.Unknown || d.page == "" {
			return r
		}
	}
	conn.Close()
	if d.page == "" {
		return r
	}
	got := d.get(ctx, j, to)
	if got.Status == probe.OK && r.Status != probe.OK { // an answer does not make the certificate good
		return r
	}
	return got
}

// shake does a TLS handshake in which this side has no certificate to show.
func (d dialling) shake(ctx context.Context, j *probe.Job, conn net.Conn, to netip.AddrPort) probe.Result {
	one, cancel := context.WithTimeout(ctx, d.wait)
	defer cancel()
	name := cmp.Or(d.sni, d.host)
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: name}) // what is shown is looked at below
	began := time.Now()
	if err := secure.HandshakeContext(one); err != nil {
		state := secure.ConnectionState()
		if len(state.PeerCertificates) == 0 {
			return noShake(ctx, to, err, d.wait)
		}
		j.Say("the handshake did not end: %v", err) // a server that wants a certificate, by TLS 1.2
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
		j.Say("the certificate is not for %s, as which it was asked", name)
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
		r = probe.Found(probe.Fail, "%s takes the connection and does not speak TLS", to)
	case reason == "timeout":
		r = probe.Found(probe.Fail, "%s takes the connection, and no TLS handshake within %s", to, short(limit))
	case reason == "reset", reason == "closed":
		r = probe.Found(probe.Fail, "%s takes the connection and hangs up in the TLS handshake", to)
	default:
		r = probe.Found(probe.Fail, "%s takes the connection, and the TLS handshake fails: %v", to, err)
	}
	return r.With(probe.FactReason, reason)
}

// describe prints a certificate of a chain.
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

// invalid says why a certificate is not valid at a time, "" when it is.
func invalid(c *x509.Certificate, now time.Time) string {
	switch {
	case now.Before(c.NotBefore):
		return "is not valid yet, for another " + probe.Age(c.NotBefore.Sub(now))
	case now.After(c.NotAfter):
		return "expired " + probe.Age(now.Sub(c.NotAfter)) + " ago"
	}
	return ""
}

// datagram sends an empty packet and waits for whatever comes back.
func (d dialling) datagram(ctx context.Context, j *probe.Job, to netip.AddrPort) probe.Result {
	one, cancel := context.WithTimeout(ctx, d.wait)
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
		j.Say("an empty packet is sent to %s, from %s", to, conn.LocalAddr())
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
		return probe.Found(probe.Unknown, "nothing came back from %s within %s, which by UDP says neither yes nor no",
			to, short(d.wait))
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
