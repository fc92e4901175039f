package checks

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

func apiAt(addr netip.AddrPort) probe.Target {
	return probe.Target{Kind: probe.KindDatastore, Name: "endpoint", Addr: addr.Addr(), Port: int(addr.Port())}
}

func TestDatastoreLatency(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(says(403, "forbidden"))
	t.Cleanup(s.Close)
	addr := netip.MustParseAddrPort(s.Listener.Addr().String())
	r := want(t, run(t, DatastoreLatency, &probe.Host{}, apiAt(addr)), "endpoint "+addr.String(), probe.OK, "median of 5")
	if n, _ := r.Facts.Num(FactAnswered); n != 5 {
		t.Errorf("%+v", r.Facts)
	}
	far := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(60 * time.Millisecond) }))
	t.Cleanup(far.Close)
	addr = netip.MustParseAddrPort(far.Listener.Addr().String())
	for budget, s := range map[string]probe.Status{"60": probe.OK, "2": probe.Warn, "1": probe.Fail} { // 20 calls of 60 ms
		calico := probe.Target{Kind: probe.KindCalico, Attrs: map[string]string{probe.AttrBudget: budget}}
		want(t, run(t, DatastoreLatency, &probe.Host{}, apiAt(addr), calico), "endpoint "+addr.String(), s)
	}
	closed := netip.MustParseAddrPort("127.0.0.1:1")
	want(t, run(t, DatastoreLatency, &probe.Host{}, apiAt(closed)), "endpoint 127.0.0.1:1", probe.Fail, "refused")
	want(t, run(t, DatastoreLatency, &probe.Host{}), "", probe.Skip, "no address")
}

func TestDistance(t *testing.T) {
	t.Parallel()
	some := []trip{{time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond}, {time.Millisecond, 2 * time.Millisecond, 9 * time.Millisecond}}
	r := distance(some, errors.New("reset"), time.Second, 0, "a")
	if r.Status != probe.Warn || r.Facts[FactWorst] != 12.0 {
		t.Errorf("%+v", r)
	}
}
