//go:build e2e

package ask

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealTypha drops packets to one of two Typhas. Typha itself cannot run here: a server that requires client
// certificates stands in for it.
func TestRealTypha(t *testing.T) {
	if !nstest.Enter(t, `
ip link set lo up
nft add table inet t
nft add chain inet t in { type filter hook input priority 0 ; }
nft add rule inet t in ip daddr 127.0.0.3 tcp dport 5473 drop
`) {
		return
	}
	config := &tls.Config{Certificates: []tls.Certificate{checktest.Certificate(t, "typha-server",
		time.Now().Add(20*24*time.Hour))}, ClientAuth: tls.RequireAnyClientCert}
	l := must.Get(tls.Listen("tcp", "0.0.0.0:5473", config))(t)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.(*tls.Conn).Handshake() // fails: the probe has no certificate
			c.Close()
		}
	}()
	typha := func(addr string) probe.Target {
		t := checktest.At(probe.KindTypha, "typha", addr)
		t.Port = 5473
		return t
	}
	good, filtered := typha("127.0.0.2"), typha("127.0.0.3")
	got := checktest.Run(t, typhaReachCheck, &probe.Host{}, good, filtered)
	checktest.Want(t, got, "typha 127.0.0.2", probe.OK, "speaks TLS")
	checktest.Want(t, got, "typha 127.0.0.3", probe.Warn, "no answer", "1 of 2 Typha instances do not answer")
	checktest.Want(t, checktest.Run(t, typhaReachCheck, &probe.Host{}, filtered), "typha 127.0.0.3", probe.Fail,
		"no answer")
	checktest.Want(t, checktest.Run(t, typhaReachCheck, &probe.Host{}, typha("10.9.9.9")), "typha 10.9.9.9", probe.Fail,
		"cannot be reached")
}
