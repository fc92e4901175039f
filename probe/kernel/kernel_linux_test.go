package kernel

import (
	"errors"
	"math"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestLoopback reads what every network namespace in use has.
func TestLoopback(t *testing.T) {
	t.Parallel()
	links, err := Links()
	if err != nil {
		t.Fatal(err)
	}
	own := netip.MustParseAddr("127.0.0.1")
	i := slices.IndexFunc(links, func(l Link) bool { return l.Loopback })
	if i < 0 || links[i].Name != "lo" || !links[i].Up || !links[i].Carrier || !links[i].Has(own) {
		t.Fatalf("%+v", links)
	}
	if l, err := LinkNamed("lo"); err != nil || l.MTU != links[i].MTU || !l.Has(own) {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := LinkNamed("no-such"); err == nil {
		t.Errorf("%+v", l)
	}
	way, matched, err := RouteOf(Packet{To: own})
	if err != nil || way.Type != Local || len(way.Hops) != 1 || way.Hops[0].Device != "lo" || matched == nil ||
		!matched.To.Contains(own) {
		t.Errorf("%+v, %+v, %v", way, matched, err)
	}
	if _, _, err := RouteOf(Packet{To: own, From: own, In: "no-such"}); !errors.Is(err, ErrNoInterface) {
		t.Error(err)
	}
	of := func(r Route) bool { return r.To.Contains(own) }
	if all, err := Routes(4, TableLocal, math.MaxInt, of); err != nil || len(all) < 2 || all[0].Hops[0].Device != "lo" {
		t.Errorf("%+v, %v", all, err)
	}
	if some, err := Routes(4, 0, 1, of); err != nil || len(some) != 1 {
		t.Errorf("%+v, %v", some, err)
	}
	for _, family := range []int{4, 6} {
		if _, err := Neighbours(family); err != nil {
			t.Error(err)
		}
	}
}

func TestSocketInode(t *testing.T) {
	t.Parallel()
	for link, want := range map[string]uint32{"socket:[4711]": 4711, "pipe:[4711]": 0, "/x": 0, "socket:[x]": 0} {
		if got := SocketInode(link); got != want {
			t.Errorf("%s: %d, want %d", link, got, want)
		}
	}
}

// TestTCP checks for the sockets of a connection, selected by state and port.
func TestTCP(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(address, func(t *testing.T) { tcpAt(t, address) })
	}
}

func tcpAt(t *testing.T, address string) {
	listener := must.Get(net.Listen("tcp", address))(t)
	defer listener.Close()
	conn := must.Get(net.Dial("tcp", listener.Addr().String()))(t)
	defer conn.Close()
	at := netip.MustParseAddrPort(listener.Addr().String())
	from := netip.MustParseAddrPort(conn.LocalAddr().String())
	count := func(states States, near, far uint16, fits func(Socket) bool) (n int) {
		must.Do(t, TCP(states, near, far, func(s Socket) {
			if fits(s) && s.Inode != 0 {
				n++
			}
		}))
		return n
	}
	if n := count(Listening, at.Port(), 0, func(s Socket) bool { return s.Near == at && s.State == "listens" }); n != 1 {
		t.Errorf("%d listen", n)
	}
	is := func(s Socket) bool { return s.Near == from && s.Far == at && s.State == "established" }
	for _, states := range []States{Established, Connections, Open} {
		if n := count(states, 0, at.Port(), is); n != 1 {
			t.Errorf("%d of states %x lead there", n, states)
		}
	}
	if n := count(Connections, at.Port(), 0, func(s Socket) bool { return s.State == "listens" }); n != 0 {
		t.Errorf("%d connections listen", n)
	}
}
