package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestAPIServerIsVerified points the verbs that connect to a cluster at an API server whose certificate another CA
// signed. Each verb must fail with the reason, without sending a request, which would contain the user's token. With
// the right CA, each verb sends a request.
func TestAPIServerIsVerified(t *testing.T) {
	t.Parallel()
	var good, bad atomic.Int64 // requests with the token of either kubeconfig
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer right" {
			good.Add(1)
		} else {
			bad.Add(1)
		}
		http.Error(w, "not here", http.StatusForbidden)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	right := kubeconfigWith(t, srv.URL, "right", srv.Certificate().Raw)
	wrong := kubeconfigWith(t, srv.URL, "wrong", otherCA(t))
	for _, verb := range []string{
		"run --node a --via api", "run --node a --via pod", "run --node a --via kubelet", "run --all-nodes --via api",
		"preflight --node a", "clean", "mesh", "conditions --dry-run", "bundle --node a --via api --dry-run",
		"capture --node a --own 10.0.0.1",
	} {
		args := strings.Fields(verb)
		exit, out, errs := call(t, append(args, "--kubeconfig", wrong)...)
		if n := bad.Swap(0); n > 0 || exit == 0 || !strings.Contains(out+errs, "certificate") {
			t.Errorf("%s: %d requests to an unverified server, exit %d: %s%s", verb, n, exit, out, errs)
		}
		if _, out, errs := call(t, append(args, "--kubeconfig", right)...); good.Swap(0) == 0 {
			t.Errorf("%s: no request to the verified server: %s%s", verb, out, errs)
		}
	}
}

// kubeconfigWith writes a kubeconfig for a server, a token and a CA.
func kubeconfigWith(t *testing.T, server, token string, ca []byte) string {
	t.Helper()
	var certificate bytes.Buffer
	must.Do(t, pem.Encode(&certificate, &pem.Block{Type: "CERTIFICATE", Bytes: ca}))
	name := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"clusters": [{"name": "x", "cluster": {"server": %q, "certificate-authority-data": %q}}],
		"users": [{"name": "x", "user": {"token": %q}}],
		"contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}`,
		server, base64.StdEncoding.EncodeToString(certificate.Bytes()), token)
	must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// otherCA returns a CA that has signed no certificate.
func otherCA(t *testing.T) []byte {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "other"}, IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(time.Hour),
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key))(t)
	return der
}
