package checktest

import (
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

func Session(scope, name, addr string, port int) probe.Target {
	return probe.Target{Kind: probe.KindSession, Name: name, Addr: netip.MustParseAddr(addr), Port: port,
		Attrs: map[string]string{probe.AttrScope: scope}}
}

const CalicoList = `{"name":"k8s-pod-network","cniVersion":"0.3.1","plugins":[{"type":"calico","ipam":{"type":"calico-ipam"}},{"type":"portmap"}]}`

func KubeconfigWith(token string) string {
	return "apiVersion: v1\nkind: Config\nclusters:\n- name: local\n  cluster:\n    server: https://10.96.0.1:443\nusers:\n- name: calico\n  user:\n    token: " + token + "\n"
}

// Token returns a token in the format that Kubernetes uses. Its signature is invalid, but no code verifies it.
func Token(issued, expires time.Time) string {
	c := map[string]any{"iss": "https://kubernetes.default.svc",
		"sub": "system:serviceaccount:kube-system:calico-cni-plugin", "iat": issued.Unix(), "nbf": issued.Unix(),
		"kubernetes.io": map[string]any{"serviceaccount": map[string]any{"uid": "0f1e"}}}
	if !expires.IsZero() {
		c["exp"] = expires.Unix()
	}
	payload, err := json.Marshal(c)
	if err != nil {
		panic(err) // in a map of strings and numbers
	}
	return "eyJhbGciOiJSUzI1NiJ9." + base64.RawURLEncoding.EncodeToString(payload) + ".c2lnbmF0dXJl"
}

// Log lines as the components write them.
const (
	KubeletSwap = `run.go:72] "command failed" err="failed to run Kubelet: running with swap on is not supported, please disable swap or set --fail-swap-on flag to false"`

	KubeletStalled = `kubelet.go:2448] "Skipping pod synchronization" err="PLEG is not healthy: pleg has yet to be successful"`
	Exited         = "kubelet.service: Main process exited, code=exited, status=1/FAILURE"
)

// RecordedJournal returns a journal that journald recorded.
func RecordedJournal(t *testing.T, folder, name string) []byte {
	t.Helper()
	packed := must.Get(os.Open(folder + "/" + name + ".journal.gz"))(t)
	defer packed.Close()
	z := must.Get(gzip.NewReader(packed))(t)
	text := must.Get(io.ReadAll(z))(t)
	return text
}

func APIAt(addr netip.AddrPort) probe.Target {
	return probe.Target{Kind: probe.KindDatastore, Name: "endpoint", Addr: addr.Addr(), Port: int(addr.Port())}
}

func Says(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

const TwoCPUs = "cpu  1 0 1 1 0 0 0 0 0 0\ncpu0 1 0 1 1 0 0 0 0 0 0\ncpu1 1 0 1 1 0 0 0 0 0 0\nbtime 1\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n"

// Process adds a process's proc files.
func Process(files map[string]string, pid, ppid int, comm string, began int, inside string, args ...string) {
	dir := fmt.Sprintf("proc/%d/", pid)
	files[dir+"comm"] = comm + "\n"
	files[dir+"cmdline"] = strings.Join(args, "\x00") + "\x00"
	files[dir+"stat"] = fmt.Sprintf("%d (%s) S %d 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0%s\n", pid, comm, ppid,
		began, strings.Repeat(" 0", 28))
	files[dir+"status"] = fmt.Sprintf("Name:\t%s\nUid:\t0\t0\t0\t0\nNSpid:\t%d%s\n", comm, pid, inside)
}

func Budget(seconds string) probe.Target {
	return probe.Target{Kind: probe.KindCalico, Attrs: map[string]string{probe.AttrBudget: seconds}}
}

// Certificate creates a self-signed certificate.
func Certificate(t *testing.T, name string, until time.Time) tls.Certificate {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: until.Add(-30 * 24 * time.Hour),
		NotAfter: until, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, c, c, key.Public(), key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
