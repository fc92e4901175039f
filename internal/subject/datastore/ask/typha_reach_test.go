package ask

import (
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
)

// standIn listens in place of Typha, which cannot run here, and passes each connection to a function.
func standIn(t *testing.T, speak func(net.Conn)) probe.Target {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
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

// TestTyphaReach stands in for Typhas with TLS that requires a client certificate, in both versions, and without TLS.
func TestTyphaReach(t *testing.T) {
	t.Parallel()
	wants := func(version uint16, until time.Time) func(net.Conn) {
		config := &tls.Config{Certificates: []tls.Certificate{checktest.Certificate(t, "typha-server", until)},
			ClientAuth: tls.RequireAnyClientCert, MaxVersion: version}
		return func(c net.Conn) {
			_ = tls.Server(c, config).Handshake() // fails: the probe has no certificate
			c.Close()
		}
	}
	soon := time.Now().Add(20 * 24 * time.Hour)
	new13, old12, past := standIn(t, wants(tls.VersionTLS13, soon)), standIn(t, wants(tls.VersionTLS12, soon)),
		standIn(t, wants(tls.VersionTLS12, time.Now().Add(-time.Hour)))
	plain := standIn(t, func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 22)) // a ClientHello that it does not understand
		c.Close()
	})
	silent := standIn(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	closed := new13
	closed.Port = 1
	ask := func(targets ...probe.Target) []probe.Result {
		return checktest.Run(t, typhaReachCheck, &probe.Host{}, targets...)
	}
	const at = "typha 127.0.0.1"
	for _, t13 := range []probe.Target{new13, old12} {
		checktest.Want(t, ask(t13), at, probe.OK, "speaks TLS")
	}
	checktest.Want(t, ask(plain), at, probe.Info, "closes them at a TLS handshake")
	other := standIn(t, func(c net.Conn) { // an alert that is not about certificates: handshake_failure
		_, _ = c.Write([]byte{21, 3, 3, 0, 2, 2, 40})
		_, _ = io.Copy(io.Discard, c)
	})
	checktest.Want(t, ask(other), at, probe.Fail, "aborts the TLS handshake: tls: handshake failure")
	web := standIn(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.0 400 Bad Request\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
	})
	checktest.Want(t, ask(web), at, probe.OK, "does not speak TLS")
	checktest.Want(t, ask(past), at, probe.Fail, "the server's certificate expired")
	checktest.Want(t, ask(silent), at, probe.Fail, "does not answer within")
	checktest.Want(t, ask(closed), at, probe.Fail, "refused")
	got := ask(new13, old12, closed)
	checktest.Want(t, got, at, probe.OK, "speaks TLS")
	checktest.Want(t, got, at, probe.Warn, "refused", "1 of 3 Typha instances do not answer")
	checktest.Want(t, ask(checktest.Self("10.0.0.1")), "", probe.Skip, "no Typha")
}
