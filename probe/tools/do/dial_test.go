package do

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/httpget"
	"github.com/calico-probe/calico-probe/probe/must"
)

// certificate returns a self-signed certificate, valid between two times from now.
func certificate(t *testing.T, from, to time.Duration) tls.Certificate {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	now := time.Now()
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "web\x1b[2J"},
		DNSNames: []string{"web.test"}, IPAddresses: []net.IP{{127, 0, 0, 1}}, NotBefore: now.Add(from),
		NotAfter: now.Add(to)}
	raw := must.Get(x509.CreateCertificate(rand.Reader, c, c, key.Public(), key))(t)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

// pages serves pages over HTTP.
func pages(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Set-Cookie", "session=verysecret")
	w.Header().Set("X-Host", r.Host)
	if r.URL.Path == "/bad" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write([]byte(strings.Repeat("a line\x1b[2J of "+r.URL.Path+"\n", 100)))
}

func TestDial(t *testing.T) {
	t.Parallel()
	plainServer := httptest.NewServer(http.HandlerFunc(pages))
	t.Cleanup(plainServer.Close)
	secure := func(c tls.Certificate) string {
		s := httptest.NewUnstartedServer(http.HandlerFunc(pages))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{c}}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	http1 := plainServer.Listener.Addr().String()
	good, old, early := secure(certificate(t, -time.Hour, 100*time.Hour)),
		secure(certificate(t, -100*time.Hour, -50*time.Hour)), secure(certificate(t, time.Hour, 100*time.Hour))
	_, port, _ := net.SplitHostPort(http1)
	_, goodPort, _ := net.SplitHostPort(good)
	root := files(t, map[string]string{"etc/hosts": "127.0.0.1 web.test other # x\n",
		"etc/resolv.conf": "nameserver x\n"})
	for line, want := range map[string]struct {
		status probe.Status
		saw    string
		out    []string
	}{
		http1: {probe.OK, "accepts connections",
			[]string{"connected to " + http1 + " in ", ", from 127.0.0.1:"}},
		closedPort(t): {probe.Fail, " refused", nil},
		"web.test:" + port: {probe.OK, "accepts connections",
			[]string{"web.test is 127.0.0.1, by /etc/hosts"}},
		"no.test:" + port: {probe.Fail, "names no usable server", nil},
		"--http /good " + http1: {probe.OK, "answers 200 OK to GET /good",
			[]string{"HTTP/1.1 200 OK in", "Set-Cookie: (not shown)", "a line?[2J of /good", "(more is not shown)"}},
		"--http /bad " + http1:       {probe.Fail, "answers 503 Service Unavailable to GET /bad", nil},
		"--http /x web.test:" + port: {probe.OK, "200", []string{"X-Host: web.test:" + port}},
		"--tls " + http1:             {probe.Fail, "does not speak TLS", nil},
		"--tls " + good: {probe.OK, "valid until",
			[]string{"TLS 1.3", "subject  CN=web", "for      web.test, 127.0.0.1", "valid now, 4d left"}},
		"--tls web.test:" + goodPort:             {probe.OK, "valid until", nil},
		"--sni other.test " + good:               {probe.OK, "valid until", []string{"is not valid for other.test"}},
		"--tls " + old:                           {probe.Fail, "expired 2d ago by this node's clock", nil},
		"--tls " + early:                         {probe.Fail, "is not valid yet", nil},
		"--tls --http /good " + good:             {probe.OK, "200", []string{"TLS 1.3", "HTTP/1.1 200 OK"}},
		"--tls --http /good " + old:              {probe.Fail, "expired", []string{"HTTP/1.1 200 OK"}},
		"-u " + closedPort(t):                    {probe.Fail, "refused by ICMP", nil},
		"-u -t 400ms " + silentDatagrams(t):      {probe.Unknown, "proves nothing over UDP", nil},
		"--tls -t 400ms " + silentListener(t):    {probe.Fail, "no TLS handshake within", nil},
		"--http / -t 400ms " + silentListener(t): {probe.Fail, "does not answer GET / within", nil},
	} {
		r, out := use(t.Context(), t, root, "dial", strings.Fields(line)...)
		wants(t, r, want.status, want.saw)
		for _, text := range want.out {
			if !strings.Contains(out, text) {
				t.Errorf("%s: no %q in\n%s", line, text, out)
			}
		}
		if strings.Contains(out+r.Saw, "verysecret") || strings.Contains(out, "\x1b") {
			t.Errorf("%s: %q", line, out)
		}
	}
}

// TestDialMetadata checks that cloud metadata never reaches the screen.
func TestDialMetadata(t *testing.T) {
	t.Parallel()
	page := httpget.Page{Header: http.Header{"X-Token": {"verysecret"}, "Etag": {"verysecret"}},
		Body: []byte("verysecret")}
	for addr, hidden := range map[string]bool{
		"169.254.169.254": true, "::ffff:169.254.169.254": true, "169.254.20.10": true, "fe80::a9fe:a9fe%eth0": true,
		"fd00:ec2::254": true, "fd20:ce::254": true,
		"100.100.100.200": true, "168.63.129.16": true, "10.0.0.12": false, "fd00::1": false, "127.0.0.1": false,
	} {
		var out strings.Builder
		printPage(&probe.Job{Out: &out}, netip.MustParseAddr(addr), page)
		if got := out.String(); strings.Contains(got, "verysecret") == hidden || !strings.Contains(got, "X-Token") ||
			hidden && !strings.Contains(got, "10 bytes of body are not shown") {
			t.Errorf("%s: %s", addr, got)
		}
	}
}

func silentListener(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func silentDatagrams(t *testing.T) string {
	t.Helper()
	l := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	return l.LocalAddr().String()
}

func TestDialSocket(t *testing.T) {
	t.Parallel()
	root, err := os.MkdirTemp("", "dial") // a UNIX address has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(root, "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	r, out := use(t.Context(), t, root, "dial", "unix:/s")
	wants(t, r, probe.OK, "/s accepts connections")
	if !strings.Contains(out, "connected to /s in") {
		t.Error(out)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	r, _ = use(t.Context(), t, root, "dial", "unix:/s")
	wants(t, r, probe.Fail, "nothing listens")
	r, _ = use(t.Context(), t, root, "dial", "unix:/none")
	wants(t, r, probe.Fail, "no such socket")
}

func FuzzHosts(f *testing.F) {
	f.Add("127.0.0.1 a b # c\n::1 a\n", "a")
	f.Fuzz(func(t *testing.T, text, host string) {
		for _, a := range inHosts([]byte(text), host) {
			if a == (netip.Addr{}) {
				t.Errorf("%q: an empty address", text)
			}
		}
	})
}

// TestTellsSecrets has the addresses of cloud metadata in every form in which a packet can reach them.
func TestTellsSecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"169.254.169.254": true, "169.254.170.2": true, "100.100.100.200": true, "168.63.129.16": true,
		"::ffff:169.254.169.254": true,
		"fd00:ec2::254":          true, "fd00:c1::a9fe:a9fe": true, "fd20:ce::254": true, "fd00:42::42": true,
		"fe80::a9fe:a9fe%eth0":     true,
		"64:ff9b::169.254.169.254": true, "64:ff9b::100.100.100.200": true, "64:ff9b:1::169.254.169.254": true, // NAT64
		"::169.254.169.254": true, "::ffff:0:169.254.169.254": true, "2002:a9fe:a9fe::1": true,
		// RFC 6052 with an own prefix, of 32, 40, 48, 56, 64 and 96 bits.
		"2001:db8:a9fe:a9fe::": true, "2001:db8:1a9:fea9:fe::": true, "2001:db8:122:a9fe:a9:fe00::": true,
		"2001:db8:122:3a9:fe:a9fe::": true, "2001:db8:122:344:a9:fea9:fe00:0": true,
		"2001:db8:122:344::169.254.169.254": true,
		"10.0.0.1":                          false, "169.253.169.254": false, "100.100.100.201": false,
		"64:ff9b::10.0.0.1": false,
		"2001:db8::1":       false,
		"fd00::1":           false, "::1": false, "2002:a00:1::1": false, "2001:db8:122:344::192.0.2.33": false,
	} {
		if got := mayReturnSecrets(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
