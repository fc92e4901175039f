package ask

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/node"
)

// TestKubeletAuthority distinguishes an API server with a certificate of the kubelet's CA from one with another
// certificate.
func TestKubeletAuthority(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	asPEM := func(der []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	own, other := asPEM(server.Certificate().Raw), asPEM(otherCA(t))
	port := server.URL[strings.LastIndex(server.URL, ":")+1:]
	k := node.Kubelet{Access: "/etc/kubernetes/kubelet.conf"}
	for name, c := range map[string]struct {
		cluster string
		checked bool
		status  probe.Status
		reason  string
	}{
		"its own": {"server: " + server.URL + ", certificate-authority-data: " + own, true,
			probe.OK, ""},
		"another's": {"server: " + server.URL + ", certificate-authority-data: " + other, true,
			probe.Fail, authorityOther},
		"from a file": {"server: " + server.URL + ", certificate-authority: /etc/kubernetes/pki/ca.crt", true,
			probe.Fail, authorityOther},
		"another name": {"server: " + server.URL + ", tls-server-name: api.other, certificate-authority-data: " + own,
			true, probe.Fail, authorityName},
		"no verification": {"server: " + server.URL + ", insecure-skip-tls-verify: true", false, "", ""},
		"through a proxy": {"server: " + server.URL + ", proxy-url: http://10.0.0.1:1, certificate-authority-data: " + other, false, "", ""},
		"no CA":           {"server: " + server.URL, false, "", ""},
		"nothing listens": {"server: https://127.0.0.1:1, certificate-authority-data: " + own, true, probe.Info, "refused"},
		"an unknown name": {"server: 'https://api.invalid', certificate-authority-data: " + own, false, "", ""},
		"no handshake":    {"server: https://" + closing(t) + ", certificate-authority-data: " + own, false, "", ""},
		"no TLS":          {"server: http://127.0.0.1:" + port + ", certificate-authority-data: " + own, false, "", ""},
		"an invalid URL":  {"server: '%zz', certificate-authority-data: " + own, false, "", ""},
		"an invalid CA":   {"server: " + server.URL + ", certificate-authority-data: AAAA", false, "", ""},
		"a missing file":  {"server: " + server.URL + ", certificate-authority: /none", false, "", ""},
	} {
		pems := must.Get(base64.StdEncoding.DecodeString(other))(t)
		h := checktest.Node(t, map[string]string{
			"etc/kubernetes/kubelet.conf": "clusters: [{name: c, cluster: {" + c.cluster + "}}]\n",
			"etc/kubernetes/pki/ca.crt":   string(pems),
		})
		r, checked := kubeletAuthority(context.Background(), h, k)
		if checked != c.checked || checked && (r.Status != c.status || r.Facts.Str(probe.FactReason) != c.reason) {
			t.Errorf("%s: %v %+v", name, checked, r)
		}
	}
}

// closing returns the address of a server that closes each connection at once.
func closing(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

// otherCA returns the certificate of a CA that has signed no server of this test.
func otherCA(t *testing.T) []byte {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := must.Get(x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, &x509.Certificate{}, &key.PublicKey, key))(t)
	return der
}
