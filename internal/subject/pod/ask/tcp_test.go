package ask

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/reach"
)

func TestAcceptRefusal(t *testing.T) {
	t.Parallel()
	to := netip.MustParseAddrPort("10.244.1.2:8080")
	firewall := reach.Unreachable(13, true, netip.MustParseAddr("10.9.0.9"))
	for name, c := range map[string]struct {
		conn     reach.Connection
		declared bool
		status   probe.Status
		saw      string
		reason   string
	}{
		"accepted": {reach.Connection{Took: 2 * time.Millisecond}, true, probe.OK, "connected to 10.244.1.2:8080 in 2ms",
			""},
		"refused": {reach.Connection{Err: syscall.ECONNREFUSED}, true, probe.Info, "nothing listens on its port 8080",
			"refused"},
		"undeclared": {reach.Connection{Err: syscall.ECONNREFUSED}, false, probe.OK, "reset from unused port 8080",
			"refused"},
		"rejected": {reach.Connection{Err: syscall.ECONNREFUSED,
			ICMP: reach.Unreachable(3, true, netip.MustParseAddr("10.9.0.9"))}, true, probe.Fail,
			`"port unreachable" by ICMP from 10.9.0.9`, "rejected"},
		"prohibited": {reach.Connection{Err: syscall.EHOSTUNREACH, ICMP: firewall}, false, probe.Fail,
			`"administratively prohibited" by ICMP from 10.9.0.9`, "rejected"},
		"no route onward": {reach.Connection{Err: syscall.EHOSTUNREACH,
			ICMP: reach.Unreachable(1, true, netip.MustParseAddr("10.9.0.9"))}, true, probe.Fail,
			`"host unreachable" by ICMP`, "host-unreachable"},
		"new code": {reach.Connection{Err: syscall.EHOSTUNREACH,
			ICMP: reach.Unreachable(99, false, netip.MustParseAddr("fd00::9"))}, true, probe.Fail,
			`"destination unreachable, code 99" by ICMP from fd00::9`, "host-unreachable"},
		"timeout": {reach.Connection{Err: os.ErrDeadlineExceeded, Limit: 3 * time.Second}, true, probe.Fail,
			"no answer from 10.244.1.2:8080 within 3s", "timeout"},
		"no route":  {reach.Connection{Err: syscall.ENETUNREACH}, true, probe.Fail, "no route to it", "net-unreachable"},
		"blackhole": {reach.Connection{Err: syscall.EINVAL}, true, probe.Fail, "blackhole", "blackhole"},
		"reset":     {reach.Connection{Err: syscall.ECONNRESET}, true, probe.Fail, "reset while it opens", "reset"},
		"a local error": {reach.Connection{Err: errors.New("too many open files")}, true, probe.Unknown,
			"too many open files", "error"},
		"stopped": {reach.Connection{Err: context.Canceled}, true, probe.Unknown, "interrupted before an answer", ""},
	} {
		c.conn.To = to
		r := acceptRefusal(c.conn.Result(t.Context()), c.conn, c.declared)
		checktest.Want(t, []probe.Result{r}, "", c.status, c.saw)
		if got := r.Facts.Str(probe.FactReason); got != c.reason {
			t.Errorf("%s: reason %q, want %q", name, got, c.reason)
		}
	}
}

func TestPodTCP(t *testing.T) {
	t.Parallel()
	checktest.Want(t, checktest.Run(t, podTCPCheck, &probe.Host{}, checktest.Self("10.0.0.1")), "", probe.Skip, "no other running workload pod")
	own := probe.Target{Kind: probe.KindLocal, Name: "self", Addr: netip.MustParseAddr("127.0.0.1"), Port: 1}
	checktest.Want(t, checktest.Run(t, podTCPCheck, &probe.Host{}, own), "", probe.Skip, "no other running workload pod")
}
