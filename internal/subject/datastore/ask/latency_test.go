package ask

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/node"
)

func TestDatastoreLatency(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(checktest.Says(403, "forbidden"))
	t.Cleanup(s.Close)
	addr := netip.MustParseAddrPort(s.Listener.Addr().String())
	r := checktest.Want(t, checktest.Run(t, datastoreLatencyCheck, &probe.Host{}, checktest.APIAt(addr)),
		"endpoint "+addr.String(), probe.OK,
		"median of 5")
	if n, _ := r.Facts.Num(factAnswered); n != 5 {
		t.Errorf("%+v", r.Facts)
	}
	closed := netip.MustParseAddrPort("127.0.0.1:1")
	checktest.Want(t, checktest.Run(t, datastoreLatencyCheck, &probe.Host{}, checktest.APIAt(closed)),
		"endpoint 127.0.0.1:1",
		probe.Fail, "refused")
	checktest.Want(t, checktest.Run(t, datastoreLatencyCheck, &probe.Host{}, checktest.Self("10.0.0.1")), "", probe.Skip,
		"the API server's address is unknown")
}

// TestUnready has an API server without etcd, a load balancer without an API server, and a load balancer with one
// unready API server.
func TestUnready(t *testing.T) {
	t.Parallel()
	ask := func(h http.HandlerFunc) (target string, got []probe.Result) {
		s := httptest.NewTLSServer(h)
		t.Cleanup(s.Close)
		addr := netip.MustParseAddrPort(s.Listener.Addr().String())
		return "endpoint " + addr.String(), checktest.Run(t, datastoreLatencyCheck, &probe.Host{}, checktest.APIAt(addr))
	}
	target, got := ask(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			http.Error(w, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed", 500)
		}
	})
	checktest.Want(t, got, target, probe.Fail, "5 of 5 answers were 500: [-]etcd failed: reason withheld")
	target, got = ask(checktest.Says(502, "no backend\nsorry"))
	checktest.Want(t, got, target, probe.Fail, "were 502: no backend")
	var requests atomic.Int32
	target, got = ask(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 2 {
			w.WriteHeader(503)
		}
	})
	checktest.Want(t, got, target, probe.Warn, "1 of 5 answers were 503")
}

// TestAlert has servers that abort a TLS 1.2 handshake: without a client certificate, which counts as an answer, and
// for another reason, which does not.
func TestAlert(t *testing.T) {
	t.Parallel()
	ask := func(config *tls.Config) (target string, got []probe.Result) {
		s := httptest.NewUnstartedServer(checktest.Says(200, `{"health":"true"}`))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.TLS = config
		s.StartTLS()
		t.Cleanup(s.Close)
		etcd := checktest.APIAt(netip.MustParseAddrPort(s.Listener.Addr().String()))
		etcd.Name = node.NameEtcd
		return "etcd " + s.Listener.Addr().String(), checktest.Run(t, datastoreLatencyCheck, &probe.Host{}, etcd)
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		target, got := ask(&tls.Config{MaxVersion: version, ClientAuth: tls.RequireAnyClientCert})
		r := checktest.Want(t, got, target, probe.OK, "etcd requires a client certificate")
		if ms, ok := r.Facts.Num(datastore.FactAnswer); !ok || ms <= 0 || ms > 60_000 {
			t.Errorf("answer after %v ms: %s", ms, r.Saw)
		}
	}
	target, got := ask(&tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return nil,
			errors.New("ill")
	}})
	checktest.Want(t, got, target, probe.Fail, "tls: internal error")
}

func TestDistance(t *testing.T) {
	t.Parallel()
	took := func(answer time.Duration) node.Trip {
		return node.Trip{Connect: time.Millisecond, Handshake: 2 * time.Millisecond, Answer: answer * time.Millisecond}
	}
	r := latencyResult([]node.Trip{took(3), took(9)}, 3, errors.New("reset"), time.Second, "a")
	if r.Status != probe.Warn || !strings.Contains(r.Saw, "1 of 3 attempts") || r.Facts[factWorst] != 12.0 {
		t.Errorf("%+v", r)
	}
}

// TestDates has certificates with lifetimes from a year to an hour.
func TestDates(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const day = 24 * time.Hour
	for left, c := range map[time.Duration]struct {
		life   time.Duration
		status probe.Status
	}{
		200 * day:        {365 * day, probe.OK},
		13 * day:         {365 * day, probe.Warn},
		-time.Second:     {365 * day, probe.Fail},
		6 * day:          {30 * day, probe.OK}, // as OpenShift renews them
		30 * time.Minute: {time.Hour, probe.OK},
	} {
		if s, saw := node.Lasts(&x509.Certificate{NotBefore: now.Add(left - c.life), NotAfter: now.Add(left)},
			now); s != c.status {
			t.Errorf("%v of %v left: %s %s", left, c.life, s, saw)
		}
	}
}

// FuzzCertificate reads a file of certificates.
func FuzzCertificate(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := certificateIn(text); (c == nil) == (err == nil) {
			t.Error(c, err)
		}
	})
}

// TestEtcdFiles checks that the dates of the CNI plugin's certificates are reported, and nothing of the key.
func TestEtcdFiles(t *testing.T) {
	t.Parallel()
	text := func(until time.Time) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: checktest.Certificate(t, "etcd", until).Certificate[0]}))
	}
	h := checktest.Node(t, map[string]string{"etc/cni/net.d/calico-tls/etcd-cert": text(time.Now().Add(time.Hour)),
		"etc/cni/net.d/calico-tls/etcd-ca":  text(time.Now().Add(-time.Hour)),
		"etc/cni/net.d/calico-tls/etcd-key": "secret"})
	etcd := checktest.APIAt(netip.MustParseAddrPort("127.0.0.1:1"))
	etcd.Name = node.NameEtcd
	got := checktest.Run(t, datastoreLatencyCheck, h, etcd)
	checktest.Want(t, got, node.EtcdFiles+"etcd-cert", probe.Warn, "expires on")
	checktest.Want(t, got, node.EtcdFiles+"etcd-ca", probe.Fail, "expired")
	checktest.Want(t, got, "etcd 127.0.0.1:1", probe.Fail, "refused")
	both := text(time.Now().Add(-time.Hour)) + text(time.Now().Add(time.Hour))
	if c, err := certificateIn([]byte(both)); err != nil || c.NotAfter.Before(time.Now()) {
		t.Error(c, err)
	}
	if _, err := certificateIn([]byte("secret")); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}
