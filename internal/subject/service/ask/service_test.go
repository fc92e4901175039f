package ask

import (
	"net"
	"net/netip"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
)

func TestServices(t *testing.T) {
	t.Parallel()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	open := netip.MustParseAddrPort(l.Addr().String())
	target := func(kind, node string, port int) probe.Target {
		return probe.Target{Kind: kind, Name: "d/web", Node: node, Addr: open.Addr(), Port: port}
	}
	good, same, dead := target(probe.KindService, "", int(open.Port())),
		target(probe.KindService, "", int(open.Port())), target(probe.KindService, "", 1)
	got := checktest.Run(t, serviceClusterIPCheck, &probe.Host{}, good, same, dead)
	checktest.Want(t, got, "d/web "+open.String(), probe.OK, "connected to")
	checktest.Want(t, got, "d/web 127.0.0.1:1", probe.Info, "refused: the endpoint is reachable")
	if len(got) != 3 { // the third: it cannot enter pods
		t.Errorf("one service connected to twice: %+v", got)
	}
	checktest.Want(t, checktest.Run(t, serviceClusterIPCheck, &probe.Host{}, checktest.Self("10.0.0.1")), "", probe.Skip,
		"no Service")

	here, there := target(probe.KindNodePort, "a", int(open.Port())), target(probe.KindNodePort, "b", 1)
	got = checktest.Run(t, serviceNodePortCheck, &probe.Host{}, here, there)
	checktest.Want(t, got, "d/web a "+open.String(), probe.OK, "connected to")
	checktest.Want(t, got, "d/web b 127.0.0.1:1", probe.Fail, "refused")
	other := target(probe.KindNodePort, "c", 2)
	got = checktest.Run(t, serviceNodePortCheck, &probe.Host{}, there, other)
	checktest.Want(t, got, "d/web b 127.0.0.1:1", probe.Info, "as at every node")
	checktest.Want(t, got, "d/web c 127.0.0.1:2", probe.Info, "as at every node")
	checktest.Want(t, checktest.Run(t, serviceNodePortCheck, &probe.Host{}, there), "d/web b 127.0.0.1:1", probe.Fail,
		"refused")
	checktest.Want(t, checktest.Run(t, serviceNodePortCheck, &probe.Host{}, checktest.Self("10.0.0.1")), "", probe.Skip,
		"no NodePort")
}
