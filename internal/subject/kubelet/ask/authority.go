package ask

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net"
	"net/url"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// Reasons why the kubelet does not trust the API server.
const (
	authorityOther   = "authority"      // a CA that is not in the kubeconfig signed the server's certificate
	authorityName    = "name"           // the server's certificate does not cover the name or address in the kubeconfig
	authorityExpired = "server-expired" // the server's certificate has expired by this node's clock
)

// authorityTime is the time limit for connecting to the API server. A TLS handshake takes one more
// round trip than a TCP connection.
const authorityTime = 4 * time.Second

// apiOf holds the API server and CA from a kubeconfig.
type apiOf struct {
	Server string `yaml:"server"`
	File   string `yaml:"certificate-authority"`
	Data   string `yaml:"certificate-authority-data"`
	Name   string `yaml:"tls-server-name"`
	Proxy  string `yaml:"proxy-url"`
	Skip   bool   `yaml:"insecure-skip-tls-verify"`
}

// kubeletAuthority fetches the certificate of the API server in the kubelet's kubeconfig. It verifies the
// certificate in the same way as the kubelet. It returns false if the file does not contain the server or the
// CA, or if the server accepts the connection and the handshake fails. Other checks report that.
func kubeletAuthority(ctx context.Context, h *probe.Host, k node.Kubelet) (probe.Result, bool) {
	api, roots, ok := authorityIn(h, k)
	if !ok {
		return probe.Result{}, false
	}
	u, err := url.Parse(api.Server)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return probe.Result{}, false
	}
	address, name := u.Host, u.Hostname()
	if u.Port() == "" {
		address = net.JoinHostPort(name, "443")
	}
	if api.Name != "" {
		name = api.Name
	}
	one, stop := context.WithTimeout(ctx, authorityTime)
	defer stop()
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(one, "tcp", address)
	if err == nil {
		_ = conn.Close()
		return probe.Found(probe.OK, "%s presents a certificate signed by the CA in %s", address, k.Access), true
	}
	var (
		unknown x509.UnknownAuthorityError
		named   x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	reason := ""
	switch {
	case errors.As(err, &unknown):
		reason = authorityOther
	case errors.As(err, &named):
		reason = authorityName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		reason = authorityExpired
	default:
		if ctx.Err() != nil { // the check's own time is over
			return probe.Result{}, false
		}
		return unanswered(err, address, k.Access)
	}
	return probe.Found(probe.Fail, "the kubelet rejects the certificate of %s (CA in %s): %v", address,
		k.Access, err).With(probe.FactReason, reason), true
}

// unanswered reports that the API server in the kubelet's kubeconfig accepts no connection. This is information: the
// kubelet may use an older connection, and datastore-latency judges the path to the cluster's API servers. It returns
// false for other errors, and for a name without an address, because the kubelet may resolve names differently.
func unanswered(err error, address, file string) (probe.Result, bool) {
	op, is := errors.AsType[*net.OpError](err)
	reasons := []string{"refused", "timeout", "host-unreachable", "net-unreachable"}
	if !is || op.Op != "dial" || errors.As(err, new(*net.DNSError)) || !slices.Contains(reasons, probe.Reason(err)) {
		return probe.Result{}, false
	}
	r := node.NoAnswer(err, "API server "+address+" in "+file, authorityTime)
	r.Status = probe.Info
	return r.With(probe.FactAddress, address).With(probe.FactFile, file), true
}

// authorityIn reads the API server and CA from the kubelet's kubeconfig, which contains one cluster.
func authorityIn(h *probe.Host, k node.Kubelet) (apiOf, *x509.CertPool, bool) {
	text, err := h.ReadFile(k.Access)
	if err != nil {
		return apiOf{}, nil, false
	}
	var kubeconfig struct {
		Clusters []struct {
			Cluster apiOf `yaml:"cluster"`
		} `yaml:"clusters"`
	}
	if err := yaml.Unmarshal(text, &kubeconfig); err != nil || len(kubeconfig.Clusters) != 1 {
		return apiOf{}, nil, false
	}
	api := kubeconfig.Clusters[0].Cluster
	if api.Skip || api.Proxy != "" {
		return apiOf{}, nil, false
	}
	ca, err := base64.StdEncoding.DecodeString(api.Data)
	if api.File != "" && len(ca) == 0 {
		ca, err = h.ReadFile(api.File)
	}
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(ca) {
		return apiOf{}, nil, false
	}
	return api, roots, true
}
