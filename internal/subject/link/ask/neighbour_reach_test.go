package ask

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestNeighbourReach tests this machine: open ports answer, closed ports refuse, and a refusal proves that the machine
// is alive.
func TestNeighbourReach(t *testing.T) {
	t.Parallel()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	open := l.Addr().(*net.TCPAddr).Port
	gone := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	closed := gone.Addr().(*net.TCPAddr).Port
	gone.Close()
	here := netip.MustParseAddr("127.0.0.1")
	at := func(port int) probe.Target {
		return probe.Target{Kind: probe.KindOutside, Name: "node-b", Node: "node-b", Addr: here, Port: port}
	}
	got := checktest.Run(t, neighbourReachCheck, &probe.Host{}, at(open), at(closed))
	if len(got) != 2 || got[0].Target != "node-b tcp "+strings.Split(l.Addr().String(), ":")[1] ||
		got[0].Status != probe.OK {
		t.Errorf("%+v", got)
	}
	if port, _ := got[1].Facts.Num(probe.FactPort); got[1].Status != probe.Fail ||
		got[1].Facts.Str(probe.FactReason) != "refused" || int(port) != closed ||
		got[1].Facts.Str(probe.FactNode) != "node-b" {
		t.Errorf("%+v", got[1])
	}
	if r := checktest.Run(t, neighbourReachCheck, &probe.Host{})[0]; r.Status != probe.Skip {
		t.Errorf("with nobody to ask about: %+v", r)
	}
}

// TestReachKubelet distinguishes a kubelet that answers from a frozen one, for which only the kernel accepts
// connections.
func TestReachKubelet(t *testing.T) {
	t.Parallel()
	frozen := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer frozen.Close()
	lives := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer lives.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	for _, c := range []struct {
		at     net.Addr
		speaks bool
		says   string
	}{
		{lives.Listener.Addr(), true, ", and the kubelet answers (401)"},
		{frozen.Addr(), false, ", but the kubelet does not answer a request within "},
	} {
		r := reachKubelet(ctx, netip.MustParseAddrPort(c.at.String()))
		if r.Status != probe.OK || r.Facts[link.FactSpeaks] != c.speaks || !strings.Contains(r.Saw, c.says) {
			t.Errorf("%+v, want %q", r, c.says)
		}
	}
	frozen.Close()
	r := reachKubelet(ctx, netip.MustParseAddrPort(frozen.Addr().String()))
	if _, found := r.Facts[link.FactSpeaks]; found || r.Status != probe.Fail {
		t.Errorf("closed port: %+v", r)
	}
}

func TestDowngradeExcused(t *testing.T) {
	t.Parallel()
	silent := probe.Found(probe.Fail, "silent")
	node := func(port int) probe.Target { return probe.Target{Name: "node-b", Node: "node-b", Port: port} }
	pod := probe.Target{Name: "default/web", Node: "node-b"}
	for _, c := range []struct {
		t     probe.Target
		alive bool
		want  probe.Status
	}{
		{node(22), true, probe.Info}, {node(0), true, probe.Info}, {node(10250), true, probe.Fail},
		{node(179), true, probe.Fail}, {pod, true, probe.Fail},
		{node(22), false, probe.Fail}, {node(0), false, probe.Fail},
	} {
		if got := downgradeExcused(c.t, silent, c.alive).Status; got != c.want {
			t.Errorf("%+v, alive %v: %s, want %s", c.t, c.alive, got, c.want)
		}
	}
	several := []probe.Target{{Name: "node-b", Node: "node-b", Addr: netip.MustParseAddr("10.0.0.1")},
		{Name: "node-b", Node: "node-b", Addr: netip.MustParseAddr("10.0.0.2"), Port: 179}}
	for got, want := range map[string]string{
		outsideName(node(0), nil): "node-b icmp", outsideName(node(22), nil): "node-b tcp 22",
		outsideName(pod, several):        "node-b pod default/web",
		outsideName(several[1], several): "node-b 10.0.0.2 tcp 179",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAddNeighbour(t *testing.T) {
	t.Parallel()
	lost, back := probe.Found(probe.Fail, "none of 5"), probe.Found(probe.OK, "5 of 5")
	if r := addNeighbour(lost, "failed"); !strings.Contains(r.Saw, "no answer to ARP or NDP") ||
		r.Facts.Str(link.FactNeighbour) != "failed" {
		t.Errorf("%+v", r)
	}
	for _, r := range []probe.Result{addNeighbour(lost, "reachable"), addNeighbour(back, "failed"),
		addNeighbour(lost, "")} {
		if strings.Contains(r.Saw, "nobody") {
			t.Errorf("%+v", r)
		}
	}
}

// TestRetractUnsigned expects no failure for a silent port if a password explains the silence.
func TestRetractUnsigned(t *testing.T) {
	t.Parallel()
	to, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	with := func(a netip.Addr) []probe.Target {
		return []probe.Target{{Addr: a, Attrs: map[string]string{probe.AttrPassword: "true"}}}
	}
	silent := probe.Found(probe.Fail, "without an answer").With(probe.FactReason, "timeout")
	refused := probe.Found(probe.Fail, "refused").With(probe.FactReason, "refused")
	for name, c := range map[string]struct {
		r        probe.Result
		sessions []probe.Target
		gap      string
		want     probe.Status
	}{
		"silent":                 {silent, nil, "", probe.Fail},
		"silent, password":       {silent, with(to), "", probe.Unknown},
		"silent, another's":      {silent, with(other), "", probe.Fail},
		"silent, not known":      {silent, nil, "forbidden", probe.Unknown},
		"refused, password":      {refused, with(to), "", probe.Fail},
		"taken, as if it had no": {probe.Found(probe.OK, "taken"), with(to), "", probe.OK},
	} {
		if got := retractUnsigned(c.r, c.sessions, c.gap, to); got.Status != c.want {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}
