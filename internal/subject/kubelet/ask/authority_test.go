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

// TestKubeletAuthority wants an API server told from one whose certificate the kubelet's CA did not sign.
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
		told    bool
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
		"without a check":  {"server: " + server.URL + ", insecure-skip-tls-verify: true", false, "", ""},
		"by a proxy":       {"server: " + server.URL + ", proxy-url: http://10.0.0.1:1, certificate-authority-data: " + other, false, "", ""},
		"no CA":            {"server: " + server.URL, false, "", ""},
		"nobody is there":  {"server: https://127.0.0.1:1, certificate-authority-data: " + own, false, "", ""},
		"no TLS":           {"server: http://127.0.0.1:" + port + ", certificate-authority-data: " + own, false, "", ""},
		"what is no URL":   {"server: '%zz', certificate-authority-data: " + own, false, "", ""},
		"what is no CA":    {"server: " + server.URL + ", certificate-authority-data: AAAA", false, "", ""},
		"a file not there": {"server: " + server.URL + ", certificate-authority: /none", false, "", ""},
	} {
		pems := must.Get(base64.StdEncoding.DecodeString(other))(t)
		h := checktest.Node(t, map[string]string{
			"etc/kubernetes/kubelet.conf": "clusters: [{name: c, cluster: {" + c.cluster + "}}]\n",
			"etc/kubernetes/pki/ca.crt":   string(pems),
		})
		r, told := kubeletAuthority(context.Background(), h, k)
		if told != c.told || told && (r.Status != c.status || r.Facts.Str(probe.FactReason) != c.reason) {
			t.Errorf("%s: %v %+v", name, told, r)
		}
	}
}

// otherCA is a certificate of a CA that signed nothing here.
func otherCA(t *testing.T) []byte {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := must.Get(x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, &x509.Certificate{}, &key.PublicKey, key))(t)
	return der
}
