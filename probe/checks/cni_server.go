package checks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// CNIServer connects to the API server of the CNI plugin's kubeconfig. The plugin runs on the host for each new pod,
// by an address of its own: it can fail where calico-node and the kubelet work.
var CNIServer = &probe.Check{
	ID: "cni-server", Asks: "does the API server in the kubeconfig of Calico's CNI plugin answer?", From: probe.FromNode,
	Tags: []string{tagCNI, tagDatastore}, Access: []string{"etc/cni/net.d", "run", "proc", "uid 0", "host network"},
	Needs: []*probe.Check{NodeUplink}, Run: cniServer,
	Doc: `calico-node writes the API server's URL and authority into calico-kubeconfig (cni-token). A file that a backup or another cluster's tools restored names an old server, or an authority that did not sign its certificate: then no new pod gets a network, and everything else works. The node connects to that server and verifies its certificate as the plugin does. No token is sent.
ok: it answers, with a certificate of that authority. fail: it does not answer, or its certificate is not of that authority or not for that name. info: it does not answer, and it is one of the addresses that datastore-latency reports.
skip: no such file, or not visible by this access method; or the plugin connects through a proxy (cni-token). unknown: the file cannot be read.`,
}

// Reasons of cni-server, besides those of a connection.
const (
	ReasonAuthority = "authority" // the file's authority did not sign the server's certificate
	ReasonName      = "name"      // the certificate is for other names
	ReasonExpired   = "expired"   // the certificate is not valid at this time
)

func cniServer(ctx context.Context, p *probe.Pass) {
	file, config, missing := pluginConfigOf(ctx, p)
	if missing != nil {
		p.Report(*missing)
		return
	}
	at, err := url.Parse(config.server)
	if config.server == "" || err != nil || at.Hostname() == "" {
		p.Report(probe.Found(probe.Unknown, "%s names no API server", file))
		return
	}
	if _, proxy := pluginProxy(p.Host, config.server); proxy != "" {
		p.Report(probe.Found(probe.Skip, "the plugin connects to %s through the proxy %s", at.Host, proxy))
		return
	}
	r := config.connect(ctx, p, at)
	p.Report(r.With(FactFile, file).With(FactServer, probe.Origin(config.server)))
}

// connect makes one connection, as the plugin would.
func (c pluginConfig) connect(ctx context.Context, p *probe.Pass, at *url.URL) probe.Result {
	one, limit, cancel := part(ctx, 4)
	defer cancel()
	port := at.Port()
	if port == "" {
		port = "443"
	}
	found, err := resolve(one, p.Host, at.Hostname())
	if err != nil || len(found) == 0 {
		if r, cut := cutShort(ctx, err); cut {
			return r
		}
		return probe.Found(probe.Fail, "%s: the node resolves no such name", at.Hostname()).With(probe.FactReason, "no-name")
	}
	addr := net.JoinHostPort(found[0].String(), port)
	authority, verified := x509.NewCertPool(), "the file's authority signed its certificate"
	if c.untested || !authority.AppendCertsFromPEM(c.authority) {
		c.untested, verified = true, "its certificate was not verified, as the file has no authority"
	}
	config := &tls.Config{ServerName: at.Hostname(), RootCAs: authority, InsecureSkipVerify: c.untested}
	dialer := tls.Dialer{Config: config}
	began := time.Now()
	conn, err := dialer.DialContext(one, "tcp", addr)
	if err == nil {
		_ = conn.Close()
		took := time.Since(began).Round(100 * time.Microsecond)
		return probe.Found(probe.OK, "%s answers in %v, and %s", at.Host, took, verified)
	}
	if r, cut := cutShort(ctx, err); cut {
		return r
	}
	if r, is := distrusted(err); is {
		return r
	}
	r := noAnswer(err, addr, limit)
	if knownServer(p, found[0], port) {
		r.Status = probe.Info // datastore-latency judges it
	}
	return r
}

// distrusted is the result of a certificate that the plugin would refuse.
func distrusted(err error) (probe.Result, bool) {
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	reason := ""
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		reason = ReasonAuthority
	case errors.As(err, &name):
		reason = ReasonName
	case errors.As(err, &invalid):
		reason = ReasonExpired
	default:
		return probe.Result{}, false
	}
	return probe.Found(probe.Fail, "%s", probe.Quoted(err.Error())).With(probe.FactReason, reason), true
}

// knownServer reports whether datastore-latency connects to the same address.
func knownServer(p *probe.Pass, addr netip.Addr, port string) bool {
	return slices.ContainsFunc(p.Of(probe.KindDatastore), func(t probe.Target) bool {
		return t.Addr == addr && strconv.Itoa(t.Port) == port
	})
}
