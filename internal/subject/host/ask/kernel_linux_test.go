package ask

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/node"
)

// TestTCPSockets looks only for its own sockets: other programs may use the same port on another address.
func TestTCPSockets(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l := must.Get(net.Listen("tcp", address))(t)
		defer l.Close()
		c := must.Get(net.Dial("tcp", l.Addr().String()))(t)
		defer c.Close()
		near, far := netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(l.Addr().String())
		if at, err := node.Listening(far.Port()); err != nil || !slices.Contains(at, far.String()) {
			t.Errorf("listening on %s: %v, %v", far, at, err)
		}
		if at, err := node.Listening(near.Port()); err != nil || slices.Contains(at, near.String()) {
			t.Errorf("listening on %s: %v, %v", near, at, err)
		}
		for _, port := range []uint16{near.Port(), far.Port()} {
			if to, err := node.Connected(port); err != nil || !to[far.Addr()] {
				t.Errorf("connected by port %d: %v, %v", port, to, err)
			}
		}
	}
}
