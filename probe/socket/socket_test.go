package socket

import (
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestOwnerOfUDP opens a port, and checks that the port and this process are found.
func TestOwnerOfUDP(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("its table is Linux's")
	}
	c := must.Get(net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0"))))(t)
	defer c.Close()
	at := c.LocalAddr().(*net.UDPAddr).AddrPort()
	var found []kernel.Socket
	must.Do(t, UDP(at.Port(), func(s kernel.Socket) { found = append(found, s) }))
	names, whole := Owners(t.Context(), &probe.Host{Root: "/", Proc: "/proc"}, found)
	if len(found) != 1 || found[0].Near != at || !whole || !strings.Contains(names[found[0].Inode], "(") {
		t.Errorf("%v %v %v", found, names, whole)
	}
}

func TestUDPSocket(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
		"0: 0100:12B5 0:0 07 0:0 0:0 0 0 0 4711", "0: 0100007F:XX 0:0 07 0:0 0:0 0 0 0 4711", "0: 0100007F:12B5 0:0 07 0:0 0:0 0 0 0 x"} {
		if s, ok := udpSocket(line); ok {
			t.Errorf("%q: %v", line, s)
		}
	}
	s, ok := udpSocket("  12: 00000000000000000000000000000000:12B5 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0 0")
	if !ok || s.Near.String() != "[::]:4789" || s.Inode != 4711 {
		t.Errorf("%v %v", s, ok)
	}
}
