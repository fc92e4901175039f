package ask

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// cniServerCheck binds cni.CNIServer to the function that runs it.
var cniServerCheck = answers.To(cni.CNIServer, cniServer)

func cniServer(ctx context.Context, p *probe.Pass) {
	file, config, missing := pluginConfigOf(ctx, p)
	if missing != nil {
		p.Report(*missing)
		return
	}
	first, foreign := config.foreignNetwork(p.Host, file)
	if foreign {
		p.Report(probe.Found(probe.Skip, "%s names %s: the runtime does not use Calico's plugin", first.File,
			strings.Join(first.Plugins, ", ")))
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
	r := config.connect(ctx, p, file, at)
	if config.folder == path.Dir(file) && slices.Contains(first.Plugins, "calico") {
		r = r.With(cni.FactActive, true)
	}
	p.Report(r.With(probe.FactFile, file).With(cni.FactServer, probe.Origin(config.server)))
}

// foreignNetwork returns the runtime's first network, and reports whether that network is certainly not Calico's. It
// returns false for Multus, which may delegate to Calico, and for an unreadable file, which cni-config evaluates.
func (c pluginConfig) foreignNetwork(h *probe.Host, file string) (node.Network, bool) {
	networks, err := node.NetworksIn(h, cmp.Or(c.folder, path.Dir(file)))
	if err != nil || len(networks) == 0 || networks[0].Err != nil {
		return node.Network{}, false
	}
	first := networks[0]
	return first, !isMultus(first) && !slices.Contains(first.Plugins, "calico")
}

// connect opens one connection in the same way as the plugin.
func (c pluginConfig) connect(ctx context.Context, p *probe.Pass, file string, at *url.URL) probe.Result {
	one, limit, cancel := node.Part(ctx, 4)
	defer cancel()
	config, verified, err := c.trust(p.Host, file, at)
	if err != nil {
		return node.Unseen(err)
	}
	found, err := node.Resolve(one, p.Host, at.Hostname())
	if err != nil || len(found) == 0 {
		if r, cut := node.CutShort(ctx, err); cut {
			return r
		}
		return demoteKnown(p, at, nil, lookupFailure(at.Hostname(), err, limit))
	}
	began := time.Now()
	conn, addr, err := dialEach(one, found, portOf(at))
	if err == nil {
		defer func() { _ = conn.Close() }()
		if config != nil {
			err = tls.Client(conn, config).HandshakeContext(one)
		}
	}
	if err == nil {
		took := time.Since(began).Round(100 * time.Microsecond)
		return probe.Found(probe.OK, "%s answers in %v, %s", at.Host, took, verified)
	}
	if r, cut := node.CutShort(ctx, err); cut {
		return r
	}
	if r, is := certificateResult(err); is {
		return r
	}
	return demoteKnown(p, at, found, node.NoAnswer(err, addr, limit))
}

// trust returns how the plugin verifies the server (nil without TLS). It also describes what an answer proves. As in
// client-go, CA data takes precedence over a CA file, and a relative path starts at the kubeconfig's folder.
func (c pluginConfig) trust(h *probe.Host, file string, at *url.URL) (*tls.Config, string, error) {
	if at.Scheme == "http" {
		return nil, "without TLS", nil
	}
	if c.authority == nil && c.authorityFile != "" {
		name := c.authorityFile
		if !path.IsAbs(name) {
			name = path.Join(path.Dir(file), name)
		}
		text, err := h.ReadFile(name)
		if err != nil {
			return nil, "", err
		}
		c.authority = text
	}
	authority, verified := x509.NewCertPool(), "and the file's CA signed its certificate"
	if c.untested || !authority.AppendCertsFromPEM(c.authority) {
		c.untested, verified = true, "but its certificate was not verified: the file has no CA"
	}
	return &tls.Config{ServerName: cmp.Or(c.serverName, at.Hostname()), RootCAs: authority,
		InsecureSkipVerify: c.untested}, verified, nil
}

// portOf returns a URL's port.
func portOf(at *url.URL) string {
	if port := at.Port(); port != "" || at.Scheme != "http" {
		return cmp.Or(port, "443")
	}
	return "80"
}

// dialEach connects to the first address that accepts a connection, as client-go does. Each address gets an equal
// share of the remaining time. It returns the address that it tried last.
func dialEach(ctx context.Context, addrs []netip.Addr, port string) (conn net.Conn, addr string, err error) {
	end, _ := ctx.Deadline() // part sets the limit
	for i, a := range addrs {
		addr = net.JoinHostPort(a.String(), port)
		dialer := net.Dialer{Timeout: time.Until(end) / time.Duration(len(addrs)-i)}
		if conn, err = dialer.DialContext(ctx, "tcp", addr); err == nil {
			return conn, addr, nil
		}
	}
	return nil, addr, err
}

// lookupFailure returns the result if a server name has no address.
func lookupFailure(name string, err error, limit time.Duration) probe.Result {
	var lookup *net.DNSError
	switch isLookup := errors.As(err, &lookup); {
	case err == nil, isLookup && lookup.IsNotFound:
		return probe.Found(probe.Fail, "%s does not resolve on this node", name).With(probe.FactReason, cni.ReasonNoName)
	case isLookup && lookup.IsTimeout, errors.Is(err, context.DeadlineExceeded):
		return probe.Found(probe.Fail, "%s: no answer from the node's resolver within %v", name, limit).
			With(probe.FactReason, cni.ReasonNoResolver)
	}
	return probe.Failed(err)
}

// certificateResult returns the result for a certificate that the plugin would reject, or for an answer that came
// without a certificate.
func certificateResult(err error) (probe.Result, bool) {
	var invalid x509.CertificateInvalidError
	reason := ""
	switch {
	case errors.As(err, new(tls.RecordHeaderError)):
		reason = cni.ReasonNotTLS
	case errors.As(err, new(x509.UnknownAuthorityError)):
		reason = cni.ReasonAuthority
	case errors.As(err, new(x509.HostnameError)):
		reason = cni.ReasonName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		reason = cni.ReasonExpired
	case errors.As(err, &invalid):
		reason = cni.ReasonInvalid
	default:
		return probe.Result{}, false
	}
	return probe.Found(probe.Fail, "%s", probe.Quoted(err.Error())).With(probe.FactReason, reason), true
}

// demoteKnown turns a failure into info if datastore-latency connects to the same server and evaluates it.
func demoteKnown(p *probe.Pass, at *url.URL, addrs []netip.Addr, r probe.Result) probe.Result {
	known := slices.ContainsFunc(p.Of(probe.KindDatastore), func(t probe.Target) bool {
		same := t.Host != "" && strings.EqualFold(t.Host, at.Hostname()) || slices.Contains(addrs, t.Addr)
		return same && strconv.Itoa(t.Port) == portOf(at)
	})
	if known && r.Status == probe.Fail {
		r.Status = probe.Info
	}
	return r
}
