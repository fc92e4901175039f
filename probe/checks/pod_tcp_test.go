package checks

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

func TestPodAnswers(t *testing.T) {
	t.Parallel()
	to := netip.MustParseAddrPort("10.244.1.2:8080")
	firewall := unreachable(13, true, netip.MustParseAddr("10.9.0.9"))
	for name, c := range map[string]struct {
		conn     connection
		declared bool
		status   probe.Status
		saw      string
		reason   string
	}{
		"taken": {connection{took: 2 * time.Millisecond}, true, probe.OK, "connected to 10.244.1.2:8080 in 2ms",
			""},
		"refused": {connection{err: syscall.ECONNREFUSED}, true, probe.Info, "nothing listens on its port 8080",
			"refused"},
		"undeclared": {connection{err: syscall.ECONNREFUSED}, false, probe.OK, "reset from unused port 8080",
			"refused"},
		"rejected": {connection{err: syscall.ECONNREFUSED,
			said: unreachable(3, true, netip.MustParseAddr("10.9.0.9"))}, true, probe.Fail,
			`"port unreachable" by ICMP from 10.9.0.9`, "rejected"},
		"prohibited": {connection{err: syscall.EHOSTUNREACH, said: firewall}, false, probe.Fail,
			`"administratively prohibited" by ICMP from 10.9.0.9`, "rejected"},
		"no way on": {connection{err: syscall.EHOSTUNREACH,
			said: unreachable(1, true, netip.MustParseAddr("10.9.0.9"))}, true, probe.Fail,
			`"host unreachable" by ICMP`, "host-unreachable"},
		"new code": {connection{err: syscall.EHOSTUNREACH,
			said: unreachable(99, false, netip.MustParseAddr("fd00::9"))}, true, probe.Fail,
			`"destination unreachable, code 99" by ICMP from fd00::9`, "host-unreachable"},
		"timeout": {connection{err: os.ErrDeadlineExceeded, limit: 3 * time.Second}, true, probe.Fail,
			"no answer from 10.244.1.2:8080 within 3s", "timeout"},
		"no route":  {connection{err: syscall.ENETUNREACH}, true, probe.Fail, "no route to it", "net-unreachable"},
		"blackhole": {connection{err: syscall.EINVAL}, true, probe.Fail, "blackhole", "blackhole"},
		"reset":     {connection{err: syscall.ECONNRESET}, true, probe.Fail, "reset while it opens", "reset"},
		"not askable": {connection{err: errors.New("too many open files")}, true, probe.Unknown,
			"too many open files", "error"},
		"stopped": {connection{err: context.Canceled}, true, probe.Unknown, "interrupted before an answer", ""},
	} {
		c.conn.to = to
		r := podAnswers(c.conn.result(t.Context()), c.conn, c.declared)
		want(t, []probe.Result{r}, "", c.status, c.saw)
		if got := r.Facts.Str(probe.FactReason); got != c.reason {
			t.Errorf("%s: reason %q, want %q", name, got, c.reason)
		}
	}
}

func TestPodTCP(t *testing.T) {
	t.Parallel()
	want(t, run(t, PodTCP, &probe.Host{}, self("10.0.0.1")), "", probe.Skip, "no other running workload pod")
	own := probe.Target{Kind: probe.KindLocal, Name: "self", Addr: netip.MustParseAddr("127.0.0.1"), Port: 1}
	want(t, run(t, PodTCP, &probe.Host{}, own), "", probe.Skip, "no other running workload pod")
}
