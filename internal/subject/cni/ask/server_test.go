package ask

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
)

const (
	kubeconfigFile = "etc/cni/net.d/calico-kubeconfig"
	closedServer   = "https://127.0.0.1:1"
)

// authorityOf is a certificate in PEM.
func authorityOf(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestCNIServer connects to a real TLS server, to a closed port, and to a server with a certificate of another CA.
func TestCNIServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	plain := httptest.NewServer(http.NotFoundHandler())
	old := httptest.NewUnstartedServer(http.NotFoundHandler())
	expired := checktest.Certificate(t, "old", time.Now().Add(-time.Hour))
	old.TLS = &tls.Config{Certificates: []tls.Certificate{expired}}
	old.StartTLS()
	for _, s := range []*httptest.Server{server, plain, old} {
		t.Cleanup(s.Close)
	}
	own := authorityOf(server.Certificate().Raw)
	other := authorityOf(checktest.Certificate(t, "other", time.Now().Add(time.Hour)).Certificate[0])
	named := func(name string) string { return strings.Replace(server.URL, "127.0.0.1", name, 1) }
	for name, c := range map[string]struct {
		url    string
		ca     []byte
		status probe.Status
		reason string
		saw    string
	}{
		"good":            {server.URL, own, probe.OK, "", "the file's CA signed its certificate"},
		"closed":          {closedServer, own, probe.Fail, "refused", "nothing listens there"},
		"other authority": {server.URL, other, probe.Fail, cni.ReasonAuthority, "unknown authority"},
		"other name":      {named("localhost"), own, probe.Fail, cni.ReasonName, "certificate is"},
		"no CA":           {server.URL, nil, probe.OK, "", "was not verified"},
		"expired":         {old.URL, authorityOf(expired.Certificate[0]), probe.Fail, cni.ReasonExpired, "expired"},
		"not TLS":         {strings.Replace(plain.URL, "http:", "https:", 1), own, probe.Fail, cni.ReasonNotTLS, "TLS"},
		"without TLS":     {plain.URL, own, probe.OK, "", "without TLS"},
		"second address":  {named("two.example.com"), own, probe.OK, "", "the file's CA signed its certificate"},
		"no address": {"https://none.example.com:1", own, probe.Fail, "refused",
			"connection to 127.0.0.1:1 refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := checktest.Node(t, map[string]string{kubeconfigFile: kubeconfigOf(c.url, c.ca),
				"etc/hosts": "127.0.0.1 localhost\n127.0.0.9 two.example.com none.example.com\n" +
					"127.0.0.1 two.example.com none.example.com\n"})
			r := checktest.Want(t, checktest.Run(t, cniServerCheck, h), "", c.status, c.saw)
			if r.Facts.Str(probe.FactReason) != c.reason || r.Facts.Str(cni.FactServer) != c.url {
				t.Errorf("%+v", r)
			}
		})
	}
	checktest.Want(t, checktest.Run(t, cniServerCheck, checktest.Node(t, map[string]string{"x": ""})), "", probe.Skip, "no /etc/cni/net.d/calico-kubeconfig")
	checktest.Want(t, checktest.Run(t, cniServerCheck, checktest.Node(t,
		map[string]string{kubeconfigFile: "clusters: []\n"})),
		"", probe.Unknown,
		"names no API server")
}

// TestCNIServerTrust reads the authority from a file, and verifies the name that the kubeconfig has for it.
func TestCNIServerTrust(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	url := strings.Replace(server.URL, "127.0.0.1", "localhost", 1) // its certificate does not include this name
	start := "clusters:\n- cluster:\n    server: " + url + "\n    tls-server-name: "
	own := string(authorityOf(server.Certificate().Raw))
	other := string(authorityOf(checktest.Certificate(t, "other", time.Now().Add(time.Hour)).Certificate[0]))
	ask := func(name, file, ca string) []probe.Result {
		return checktest.Run(t, cniServerCheck, checktest.Node(t, map[string]string{"etc/hosts": "127.0.0.1 localhost\n",
			kubeconfigFile: start + name + "\n    certificate-authority: " + file + "\n", "etc/cni/net.d/ca.crt": ca}))
	}
	for _, file := range []string{"ca.crt", "/etc/cni/net.d/ca.crt"} {
		checktest.Want(t, ask("example.com", file, own), "", probe.OK, "the file's CA signed its certificate")
		checktest.Want(t, ask("example.com", file, other), "", probe.Fail, "unknown authority")
		checktest.Want(t, ask("other.test", file, own), "", probe.Fail, "not other.test")
	}
	checktest.Want(t, ask("example.com", "gone.crt", own), "", probe.Unknown, "gone.crt")
}

// TestCNIServerKnown checks that datastore-latency judges a server that it connects to, by address or by name.
func TestCNIServerKnown(t *testing.T) {
	t.Parallel()
	at := probe.Target{Kind: probe.KindDatastore, Name: probe.RoleService, Addr: netip.MustParseAddr("127.0.0.1"), Port: 1}
	host := probe.Target{Kind: probe.KindDatastore, Name: datastore.RoleConfigured, Host: "api.example.com", Port: 1}
	otherPort := host
	otherPort.Port = 2
	for name, c := range map[string]struct {
		url    string
		target probe.Target
		status probe.Status
	}{
		"by address":  {closedServer, at, probe.Info},
		"by name":     {"https://API.example.com:1", host, probe.Info},
		"other port":  {"https://api.example.com:1", otherPort, probe.Fail},
		"other name":  {"https://old.example.com:1", host, probe.Fail},
		"by its host": {"https://old.example.com:1", at, probe.Fail},
	} {
		h := checktest.Node(t, map[string]string{kubeconfigFile: kubeconfigOf(c.url, nil),
			"etc/hosts": "127.0.0.8 api.example.com old.example.com\n"})
		r := checktest.Want(t, checktest.Run(t, cniServerCheck, h, c.target), "", c.status, "nothing listens there")
		if r.Status != c.status {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestCNIServerUnused skips where the runtime uses another plugin, or Calico's plugin uses a proxy.
func TestCNIServerUnused(t *testing.T) {
	t.Parallel()
	file := kubeconfigOf(closedServer, nil)
	for types, status := range map[string]probe.Status{
		`{"type":"calico"},{"type":"portmap"}`:    probe.Fail,
		`{"type":"multus"}`:                       probe.Fail,
		`{"type":"cilium-cni"}`:                   probe.Skip,
		`{"type":"flannel"},{"type":"bandwidth"}`: probe.Skip,
		`{`: probe.Fail,
	} {
		h := checktest.Node(t, map[string]string{kubeconfigFile: file, "etc/cni/net.d/05-first.conflist": `{"plugins":[` + types + `]}`,
			"etc/cni/net.d/10-calico.conflist": `{"plugins":[{"type":"calico"}]}`})
		r := checktest.Run(t, cniServerCheck, h)[0]
		if _, sure := r.Facts[cni.FactActive]; r.Status != status || sure { // the runtime does not report its folder
			t.Errorf("%s: %+v", types, r)
		}
	}
	files := map[string]string{"proc/1/comm": "systemd\n", kubeconfigFile: file}
	checktest.Process(files, 60, 1, "containerd", 0, "")
	files["proc/60/cmdline"] = "/usr/bin/containerd\x00"
	files["proc/60/environ"] = "HTTPS_PROXY=http://proxy.example:3128\x00"
	files[kubeconfigFile] = kubeconfigOf("https://10.96.0.1:443", nil)
	checktest.Want(t, checktest.Run(t, cniServerCheck, checktest.Node(t, files)), "", probe.Skip, "through the proxy proxy.example:3128")
}

// TestLookupFailure distinguishes a missing name from a silent resolver.
func TestLookupFailure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		status probe.Status
		reason string
	}{
		"no such name": {&net.DNSError{Err: "no such host", IsNotFound: true}, probe.Fail, cni.ReasonNoName},
		"no address":   {nil, probe.Fail, cni.ReasonNoName},
		"no answer":    {&net.DNSError{Err: "i/o timeout", IsTimeout: true}, probe.Fail, cni.ReasonNoResolver},
		"over":         {context.DeadlineExceeded, probe.Fail, cni.ReasonNoResolver},
		"SERVFAIL":     {&net.DNSError{Err: "server misbehaving", IsTemporary: true}, probe.Unknown, ""},
		"hosts":        {errors.New("/etc/hosts is too long"), probe.Unknown, ""},
	} {
		r := lookupFailure("api.example.com", c.err, time.Second)
		if r.Status != c.status || r.Facts.Str(probe.FactReason) != c.reason {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestDistrusted distinguishes an expired certificate from one that is invalid for another reason.
func TestDistrusted(t *testing.T) {
	t.Parallel()
	for reason, want := range map[x509.InvalidReason]string{x509.Expired: cni.ReasonExpired,
		x509.NotAuthorizedToSign: cni.ReasonInvalid, x509.TooManyIntermediates: cni.ReasonInvalid} {
		r, is := certificateResult(x509.CertificateInvalidError{Reason: reason})
		if !is || r.Status != probe.Fail || r.Facts.Str(probe.FactReason) != want {
			t.Errorf("%v: %+v", reason, r)
		}
	}
}

// kubeconfigOf is a kubeconfig with a server and the authority for it.
func kubeconfigOf(url string, ca []byte) string {
	return "clusters:\n- cluster:\n    server: " + url + "\n    certificate-authority-data: " +
		base64.StdEncoding.EncodeToString(ca) + "\n"
}
