package ask

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/node"
)

// kubeletAt returns a node with a kubelet that is configured with the ports of two test servers.
func kubeletAt(t *testing.T, healthz, api http.HandlerFunc) *probe.Host {
	t.Helper()
	plain, secure := httptest.NewServer(healthz), httptest.NewTLSServer(api)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	port := func(s *httptest.Server) uint16 { return netip.MustParseAddrPort(s.Listener.Addr().String()).Port() }
	config := fmt.Sprintf("healthzPort: %d\nport: %d\n", port(plain), port(secure))
	return checktest.Node(t, map[string]string{"var/lib/kubelet/config.yaml": config})
}

func TestKubeletHealth(t *testing.T) {
	t.Parallel()
	got := checktest.Run(t, kubeletHealthCheck, kubeletAt(t, checktest.Says(200, "ok"), checktest.Says(401,
		"Unauthorized")))
	checktest.Want(t, got, "healthz", probe.OK, "200")
	checktest.Want(t, got, "api", probe.OK, "401")
	got = checktest.Run(t, kubeletHealthCheck, kubeletAt(t, checktest.Says(500, "[-]syncloop failed"),
		checktest.Says(500, "no")))
	checktest.Want(t, got, "healthz", probe.Fail, "500", "syncloop failed")
	checktest.Want(t, got, "api", probe.Fail, "500")

	h := checktest.Node(t, map[string]string{"var/lib/kubelet/config.yaml": "healthzPort: 0\nport: 1\n"})
	got = checktest.Run(t, kubeletHealthCheck, h)
	checktest.Want(t, got, "healthz", probe.Skip, "disables healthz")
	checktest.Want(t, got, "api", probe.Fail, "127.0.0.1:1", "refused")
}

// TestKubeletBound expects the fact about the address only if the kubelet is configured with a loopback address.
func TestKubeletBound(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"127.0.0.1": "127.0.0.1:1", "::1": "[::1]:1", "0.0.0.0": "", "": ""} {
		h := checktest.Node(t, map[string]string{"var/lib/kubelet/config.yaml": "port: 1\naddress: '" + address + "'\n"})
		got := checktest.Want(t, checktest.Run(t, kubeletHealthCheck, h), "api", probe.Fail, "refused")
		if bound := got.Facts.Str(kubelet.FactBound); bound != want {
			t.Errorf("%q: bound to %q, want %q", address, bound, want)
		}
	}
}

func TestKubeletFrozen(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	frozen := func(http.ResponseWriter, *http.Request) { <-stop }
	h := kubeletAt(t, frozen, frozen)
	t.Cleanup(func() { close(stop) }) // before the servers are closed
	got := checktest.Run(t, kubeletHealthCheck, h)
	checktest.Want(t, got, "healthz", probe.Fail, "no answer", "within ")
	checktest.Want(t, got, "api", probe.Fail, "no answer", "within ")
}

// TestKubeletCertificate reads a certificate from a file that also contains the key, as kubeadm and the kubelet write
// it, and from inside a kubeconfig.
func TestKubeletCertificate(t *testing.T) {
	t.Parallel()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	end := time.Now().Add(-time.Hour)
	der := must.Get(x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "system:node:worker-3"},
		NotBefore: end.AddDate(-1, 0, 0), NotAfter: end,
	}, &x509.Certificate{}, &key.PublicKey, key))(t)
	private := must.Get(x509.MarshalECPrivateKey(key))(t)
	both := string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY",
		Bytes: private})) + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	const file = "/var/lib/kubelet/pki/kubelet-client-current.pem"
	h := checktest.Node(t, map[string]string{
		"etc/kubernetes/kubelet.conf": "users: [{name: worker-3, user: {client-certificate: " + file + ", client-key: " + file + "}}]\n",
		file:                          both,
		"var/lib/kubelet/config.yaml": "healthzPort: 0\nport: 1\n",
	})
	r := checktest.Want(t, checktest.Run(t, kubeletHealthCheck, h), "client certificate", probe.Fail,
		file+" of system:node:worker-3 expired on ")
	if r.Facts.Str(probe.FactReason) != node.CertificateExpired || strings.Contains(fmt.Sprint(r), "PRIVATE") {
		t.Errorf("%+v", r)
	}
	inside := "users: [{name: worker-3, user: {client-certificate-data: " + base64.StdEncoding.EncodeToString([]byte(both)) + "}}]\n"
	const access = "/etc/kubernetes/kubelet.conf"
	r, ok := node.ClientCertificate(checktest.Node(t, map[string]string{"etc/kubernetes/kubelet.conf": inside}), access,
		end.AddDate(0, -2, 0))
	if !ok || r.Status != probe.OK || !strings.Contains(r.Saw, "kubelet.conf of system:node:worker-3 is valid until") {
		t.Errorf("%v %+v", ok, r)
	}
	r, ok = node.ClientCertificate(checktest.Node(t, map[string]string{"etc/kubernetes/kubelet.conf": inside}), access,
		end.AddDate(-1, 0, -2))
	if !ok || r.Status != probe.Fail || r.Facts.Str(probe.FactReason) != node.CertificateEarly ||
		!strings.Contains(r.Saw, "is not valid before ") {
		t.Errorf("%v %+v", ok, r)
	}
	for _, config := range []string{"users: [{name: a, user: {token: x}}]\n", "users: []\n", "{",
		"users: [{user: {client-certificate: /none}}]\n"} {
		h := checktest.Node(t, map[string]string{"etc/kubernetes/kubelet.conf": config})
		if r, ok := node.ClientCertificate(h, access, end); ok {
			t.Errorf("%q: %+v", config, r)
		}
	}
}
