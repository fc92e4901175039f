package checks

import (
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// TestCNIServer has the plugin's kubeconfig lead to a real TLS server, to none, and to one that its authority does not
// vouch for.
func TestCNIServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	stranger := certificate(t, "other", time.Now().Add(time.Hour)).Certificate[0]
	other := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: stranger})
	const closed = "https://127.0.0.1:1"
	for name, c := range map[string]struct {
		url    string
		ca     []byte
		status probe.Status
		reason string
		saw    string
	}{
		"good":            {server.URL, own, probe.OK, "", "the file's authority signed its certificate"},
		"closed":          {closed, own, probe.Fail, "refused", "nothing listens there"},
		"other authority": {server.URL, other, probe.Fail, ReasonAuthority, "unknown authority"},
		"other name": {strings.Replace(server.URL, "127.0.0.1", "localhost", 1), own, probe.Fail, ReasonName,
			"certificate is"},
		"no authority": {server.URL, nil, probe.OK, "", "was not verified"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := node(t, map[string]string{"etc/cni/net.d/calico-kubeconfig": kubeconfigOf(c.url, c.ca),
				"etc/hosts": "127.0.0.1 localhost\n"})
			r := want(t, run(t, CNIServer, h), "", c.status, c.saw)
			if r.Facts.Str(probe.FactReason) != c.reason || r.Facts.Str(FactServer) != c.url {
				t.Errorf("%+v", r)
			}
		})
	}
	at := probe.Target{Kind: probe.KindDatastore, Name: RoleService, Addr: netip.MustParseAddr("127.0.0.1"), Port: 1}
	h := node(t, map[string]string{"etc/cni/net.d/calico-kubeconfig": kubeconfigOf(closed, own)})
	want(t, run(t, CNIServer, h, at), "", probe.Info, "nothing listens there")
	want(t, run(t, CNIServer, node(t, map[string]string{"x": ""})), "", probe.Skip, "no /etc/cni/net.d/calico-kubeconfig")
	h = node(t, map[string]string{"etc/cni/net.d/calico-kubeconfig": "clusters: []\n"})
	want(t, run(t, CNIServer, h), "", probe.Unknown, "names no API server")
}

// kubeconfigOf is a kubeconfig with a server and the authority for it.
func kubeconfigOf(url string, ca []byte) string {
	return "clusters:\n- cluster:\n    server: " + url + "\n    certificate-authority-data: " +
		base64.StdEncoding.EncodeToString(ca) + "\n"
}
