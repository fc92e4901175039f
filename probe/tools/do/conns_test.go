package do

import (
	"context"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/must"
)

func TestConns(t *testing.T) {
	t.Parallel()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	conn := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	defer conn.Close()
	mine := "(" + strconv.Itoa(os.Getpid()) + ")"
	r, out := use(t.Context(), t, "/", "conns", port)
	if r.Status == probe.Skip { // not Linux
		t.Skip(r.Saw)
	}
	wants(t, r, probe.OK, "1 x listening socket with "+port)
	if !strings.Contains(out, "listens  127.0.0.1:"+port) || !strings.Contains(out, mine) {
		t.Error(out)
	}
	r, out = use(t.Context(), t, "/", "conns", "-e", port)
	wants(t, r, probe.OK, "connection with "+port)
	if !strings.Contains(out, "established  "+conn.LocalAddr().String()+"  127.0.0.1:"+port) {
		t.Error(out)
	}
	// A socket whose process was not searched is not reported as having none.
	over, cancel := context.WithCancel(t.Context())
	cancel()
	r, out = use(over, t, "/", "conns", "-e", port)
	wants(t, r, probe.OK, "connection with "+port)
	if !strings.Contains(out, "  ?\n") || !strings.Contains(out, "(? = not found within") {
		t.Error(out)
	}
	l.Close()
	r, _ = use(t.Context(), t, "/", "conns", port)
	wants(t, r, probe.Fail, "no listening socket with "+port)
}

func TestHas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		near, addr string
		listens    bool
		want       bool
	}{
		"itself":                    {"10.0.0.1:179", "10.0.0.1", true, true},
		"another":                   {"10.0.0.1:179", "10.0.0.2", true, false},
		"everywhere":                {"0.0.0.0:179", "10.0.0.1", true, true},
		"everywhere of both":        {"[::]:179", "10.0.0.1", true, true},
		"everywhere by IPv6":        {"[::]:179", "fd00::1", true, true},
		"IPv4 is not IPv6":          {"0.0.0.0:179", "fd00::1", true, false},
		"a connection has one only": {"0.0.0.0:179", "10.0.0.1", false, false},
	} {
		if got := socketHas(kernel.Socket{Near: netip.MustParseAddrPort(c.near)}, netip.MustParseAddr(c.addr),
			c.listens); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
