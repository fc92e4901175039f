package ask

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
)

func TestNodeConntrack(t *testing.T) {
	t.Parallel()
	for entries, s := range map[string]probe.Status{"100": probe.OK, "749": probe.OK, "750": probe.Warn,
		"950": probe.Warn, "1000": probe.Fail} {
		h := checktest.Node(t, map[string]string{"proc/sys/net/netfilter/nf_conntrack_count": entries + "\n",
			"proc/sys/net/netfilter/nf_conntrack_max": "1000\n"})
		checktest.Want(t, checktest.Run(t, nodeConntrackCheck, h), "", s, entries+" of 1000 entries")
	}
	// The kernel's counters in hexadecimal. They grow while the check waits for its second reading.
	const counters = "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error  expect_new expect_create expect_delete search_restart\n" +
		"00000064  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 %08x %08x 00000000 00000000  00000000 00000000 00000000 00000000\n"
	for name, c := range map[string]struct {
		failed, drop int
		raced        bool
	}{"a race": {7, 0, true}, "nothing": {4, 0, false}, "it is full": {7, 3, false}} {
		h := checktest.Node(t, map[string]string{"proc/sys/net/netfilter/nf_conntrack_count": "100\n",
			"proc/sys/net/netfilter/nf_conntrack_max": "1000\n", "proc/net/stat/nf_conntrack": fmt.Sprintf(counters, 4, 0)})
		later := time.AfterFunc(conntrackPause/2, func() {
			_ = os.WriteFile(filepath.Join(h.Proc, "net/stat/nf_conntrack"), fmt.Appendf(nil, counters, c.failed, c.drop), 0o600)
		})
		got := checktest.Run(t, nodeConntrackCheck, h)
		later.Stop()
		if _, raced := got[0].Facts[factRaced]; raced != c.raced || got[0].Status != probe.OK {
			t.Errorf("%s: %+v", name, got)
		}
	}
	checktest.Want(t, checktest.Run(t, nodeConntrackCheck, checktest.Node(t, map[string]string{"proc/x": ""})), "",
		probe.Skip,
		"not loaded")
	odd := checktest.Node(t, map[string]string{"proc/sys/net/netfilter/nf_conntrack_count": "many\n"})
	checktest.Want(t, checktest.Run(t, nodeConntrackCheck, odd), "", probe.Unknown, "nf_conntrack_count")
}

// TestIdleConnections tests the thresholds for the timeout of idle connections.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		seconds, loose string
		status         probe.Status // "" = no result
	}{
		{"1", "1", probe.Warn}, {"59", "1", probe.Warn}, {"60", "1", probe.Info}, {"299", "1", probe.Info},
		{"300", "1", ""}, {"86400", "1", ""}, {"59", "0", probe.Warn}, {"60", "0", probe.Warn},
		{"299", "0", probe.Warn}, {"300", "0", ""}, {"60", "?", probe.Info}, {"0", "0", ""}, {"-1", "0", ""},
	} {
		got := checktest.Run(t, nodeConntrackCheck, checktest.Node(t, map[string]string{"proc/sys/net/netfilter/nf_conntrack_count": "1\n",
			"proc/sys/net/netfilter/nf_conntrack_max":                     "1000\n",
			"proc/sys/net/netfilter/nf_conntrack_tcp_loose":               c.loose + "\n",
			"proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established": c.seconds + "\n"}))
		if c.status == "" {
			if len(got) != 1 {
				t.Errorf("%+v: %+v", c, got)
			}
			continue
		}
		r := checktest.Want(t, got, firewall.TargetIdle, c.status, "loses its entry after "+c.seconds+" s")
		idle, _ := r.Facts.Num(factIdle)
		if strict := c.loose == "0"; strconv.Itoa(int(idle)) != c.seconds || r.Facts[firewall.FactLoose] == strict ||
			strings.Contains(r.Saw, "drops its next packet") != strict {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}
