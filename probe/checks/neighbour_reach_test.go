package checks

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestNeighbourReach asks this machine about itself: what listens answers, what does
// not is refused, and a refusal shows that the machine lives.
func TestNeighbourReach(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	open := l.Addr().(*net.TCPAddr).Port
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := gone.Addr().(*net.TCPAddr).Port
	gone.Close()
	here := netip.MustParseAddr("127.0.0.1")
	at := func(port int) probe.Target {
		return probe.Target{Kind: probe.KindOutside, Name: "node-b", Node: "node-b", Addr: here, Port: port}
	}
	got := run(t, NeighbourReach, &probe.Host{}, at(open), at(closed))
	if len(got) != 2 || got[0].Target != "node-b tcp "+strings.Split(l.Addr().String(), ":")[1] || got[0].Status != probe.OK {
		t.Errorf("%+v", got)
	}
	if port, _ := got[1].Facts.Num(FactPort); got[1].Status != probe.Fail || got[1].Facts.Str(probe.FactReason) != "refused" || int(port) != closed || got[1].Facts.Str(FactNode) != "node-b" {
		t.Errorf("%+v", got[1])
	}
	if r := run(t, NeighbourReach, &probe.Host{})[0]; r.Status != probe.Skip {
		t.Errorf("with nobody to ask about: %+v", r)
	}
}

func TestExcused(t *testing.T) {
	t.Parallel()
	silent := probe.Found(probe.Fail, "silent")
	node := func(port int) probe.Target { return probe.Target{Name: "node-b", Node: "node-b", Port: port} }
	pod := probe.Target{Name: "default/web", Node: "node-b"}
	for _, c := range []struct {
		t     probe.Target
		alive bool
		want  probe.Status
	}{
		{node(22), true, probe.Info}, {node(0), true, probe.Info}, {node(10250), true, probe.Fail}, {node(179), true, probe.Fail}, {pod, true, probe.Fail},
		{node(22), false, probe.Fail}, {node(0), false, probe.Fail},
	} {
		if got := excused(c.t, silent, c.alive).Status; got != c.want {
			t.Errorf("%+v, alive %v: %s, want %s", c.t, c.alive, got, c.want)
		}
	}
	several := []probe.Target{{Name: "node-b", Node: "node-b", Addr: netip.MustParseAddr("10.0.0.1")}, {Name: "node-b", Node: "node-b", Addr: netip.MustParseAddr("10.0.0.2"), Port: 179}}
	for got, want := range map[string]string{
		outsideName(node(0), nil): "node-b icmp", outsideName(node(22), nil): "node-b tcp 22", outsideName(pod, several): "node-b pod default/web",
		outsideName(several[1], several): "node-b 10.0.0.2 tcp 179",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
