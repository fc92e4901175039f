package checks

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// certificate makes a self-signed one.
func certificate(t *testing.T, name string, until time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: until.Add(-30 * 24 * time.Hour),
		NotAfter: until, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// standIn listens where Typha would, which cannot run here, and leaves what comes
// to a function.
func standIn(t *testing.T, speak func(net.Conn)) probe.Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go speak(c)
		}
	}()
	at := netip.MustParseAddrPort(l.Addr().String())
	return probe.Target{Kind: probe.KindTypha, Name: "typha", Addr: at.Addr(), Port: int(at.Port())}
}

// TestTyphaReach stands in for Typhas as they may be set: with TLS that wants a
// certificate, in both versions, and without.
func TestTyphaReach(t *testing.T) {
	t.Parallel()
	wants := func(version uint16, until time.Time) func(net.Conn) {
		config := &tls.Config{Certificates: []tls.Certificate{certificate(t, "typha-server", until)},
			ClientAuth: tls.RequireAnyClientCert, MaxVersion: version}
		return func(c net.Conn) {
			_ = tls.Server(c, config).Handshake() // fails, for the probe shows none
			c.Close()
		}
	}
	soon := time.Now().Add(20 * 24 * time.Hour)
	new13, old12, past := standIn(t, wants(tls.VersionTLS13, soon)), standIn(t, wants(tls.VersionTLS12, soon)),
		standIn(t, wants(tls.VersionTLS12, time.Now().Add(-time.Hour)))
	plain := standIn(t, func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 22)) // a greeting it does not understand
		c.Close()
	})
	silent := standIn(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	closed := new13
	closed.Port = 1
	ask := func(targets ...probe.Target) []probe.Result { return run(t, TyphaReach, &probe.Host{}, targets...) }
	const at = "typha 127.0.0.1"
	for _, t13 := range []probe.Target{new13, old12} {
		want(t, ask(t13), at, probe.OK, "speaks TLS")
	}
	want(t, ask(plain), at, probe.Info, "closes them at a TLS handshake")
	other := standIn(t, func(c net.Conn) { // an alert that says nothing of certificates: handshake_failure
		_, _ = c.Write([]byte{21, 3, 3, 0, 2, 2, 40})
		_, _ = io.Copy(io.Discard, c)
	})
	want(t, ask(other), at, probe.Fail, "aborts the TLS handshake: tls: handshake failure")
	web := standIn(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.0 400 Bad Request\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
	})
	want(t, ask(web), at, probe.OK, "does not speak TLS")
	want(t, ask(past), at, probe.Fail, "its certificate expired")
	want(t, ask(silent), at, probe.Fail, "does not answer within")
	want(t, ask(closed), at, probe.Fail, "refused")
	got := ask(new13, old12, closed)
	want(t, got, at, probe.OK, "speaks TLS")
	want(t, got, at, probe.Warn, "refused", "1 of 3 Typha instances do not answer")
	want(t, ask(self("10.0.0.1")), "", probe.Skip, "no Typha")
}
