//go:build e2e

package ask

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealConntrack fills the connection tracking table of a namespace. The limit is the machine's, and a namespace
// cannot change it.
func TestRealConntrack(t *testing.T) {
	if !nstest.Enter(t, `
ip link set lo up
nft add table inet t
nft add chain inet t out { type filter hook output priority 0 ; }
nft add rule inet t out ct state new accept
`) {
		return
	}
	text := must.Get(os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max"))(t)
	most := must.Get(strconv.Atoi(strings.TrimSpace(string(text))))(t)
	if most > 1<<20 {
		t.Skipf("%d connections are too many for a test", most)
	}
	c := must.Get(net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	defer c.Close()
	made := 0
	upTo := func(entries int) {
		for ; made < entries; made++ { // each packet opens a connection to another port of 127.1.0.0/16
			to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 1, 0, byte(made >> 15)}),
				uint16(1<<15+made&(1<<15-1)))
			// of one before, and of one too many
			if _, err := c.WriteToUDPAddrPort([]byte("x"), to); err != nil && !errors.Is(err, syscall.ECONNREFUSED) &&
				!errors.Is(err, syscall.EPERM) {
				t.Error(err)
				return
			}
		}
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	checktest.Want(t, checktest.Run(t, nodeConntrackCheck, h), "", probe.OK, "entries")
	upTo(most * 80 / 100)
	checktest.Want(t, checktest.Run(t, nodeConntrackCheck, h), "", probe.Warn, "of "+strconv.Itoa(most)+" entries")
	upTo(most * 96 / 100)
	checktest.Want(t, checktest.Run(t, nodeConntrackCheck, h), "", probe.Warn, "entries")
	upTo(most + 1000)
	var ended atomic.Bool
	var sender sync.WaitGroup
	sender.Go(func() { // the table stays full only while new connections arrive
		for !ended.Load() {
			upTo(made + 1)
			time.Sleep(time.Millisecond)
		}
	})
	r := checktest.Want(t, checktest.Run(t, nodeConntrackCheck, h), "", probe.Fail, "the full table dropped")
	ended.Store(true)
	sender.Wait()
	if n, _ := r.Facts.Num(factDropped); n < 900 {
		t.Errorf("a thousand packets too many, and %+v", r)
	}
}
