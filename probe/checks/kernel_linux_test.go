package checks

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestTCPSockets looks for its own sockets alone: other programs may have the same port at
// another address.
func TestTCPSockets(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		near, far := netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(l.Addr().String())
		if at, err := listening(far.Port()); err != nil || !slices.Contains(at, far.String()) {
			t.Errorf("listening on %s: %v, %v", far, at, err)
		}
		if at, err := listening(near.Port()); err != nil || slices.Contains(at, near.String()) {
			t.Errorf("listening on %s: %v, %v", near, at, err)
		}
		for _, port := range []uint16{near.Port(), far.Port()} {
			if to, err := connected(port); err != nil || !to[far.Addr()] {
				t.Errorf("connected by port %d: %v, %v", port, to, err)
			}
		}
	}
}

// TestOpenSockets wants a process's connections described, and nothing else called
// one of them.
func TestOpenSockets(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h := node(t, nil)
	h.Proc = "/proc"
	open, _ := openFiles(h, os.Getpid())
	if !slices.Contains(open, fmt.Sprintf("open: TCP %s to 0.0.0.0:0, listens", l.Addr())) ||
		!slices.ContainsFunc(open, func(s string) bool { return strings.HasPrefix(s, "open: /") }) {
		t.Errorf("%v", open)
	}
}
