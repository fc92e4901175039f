package ask

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird/birdtest"
	"github.com/calico-probe/calico-probe/probe/checktest"
)

// TestMD5 replays kernel counters recorded at both ends of a session that is down because only one end has a password.
func TestMD5(t *testing.T) {
	t.Parallel()
	netstat := func(missing, unexpected, different int) string {
		return fmt.Sprintf("TcpExt: SyncookiesSent TCPMD5NotFound TCPMD5Unexpected TCPMD5Failure\nTcpExt: 0 %d %d %d\n",
			missing, unexpected, different)
	}
	for name, c := range map[string]struct {
		before, later string
		status        probe.Status
		saw, word     string
	}{
		"the password is here":    {netstat(73, 0, 0), netstat(75, 0, 0), probe.Warn, "just dropped 2 TCP segments that were not signed", bgp.MD5Missing},
		"the password is there":   {netstat(0, 73, 0), netstat(0, 74, 0), probe.Warn, "just dropped 1 TCP segments that were signed", bgp.MD5Unexpected},
		"two passwords":           {netstat(9, 0, 1), netstat(9, 0, 2), probe.Warn, "a different password", md5Different},
		"of another time":         {netstat(3, 0, 0), "", probe.Info, "since boot, the kernel has dropped 3", bgp.MD5Missing},
		"no password was at odds": {netstat(0, 0, 0), "", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := checktest.Node(t, map[string]string{"run/calico/ipam.lock": "", "proc/net/netstat": c.before})
			h.Proc = filepath.Join(h.Root, "proc")
			birdtest.Serve(t, filepath.Join(h.Root, "run/calico/bird.ctl"), "../../../../probe/bird/testdata/bird-1.6.8-restarting.txt")
			if c.later != "" {
				time.AfterFunc(300*time.Millisecond, func() {
					_ = os.WriteFile(filepath.Join(h.Proc, "net/netstat"), []byte(c.later), 0o600)
				})
			}
			got := checktest.Run(t, bgpSessionCheck, h, checktest.Backend("bird"), checktest.Self("10.0.0.1"))
			if c.status == "" {
				for _, r := range got {
					if r.Target == bgp.TargetMD5 {
						t.Errorf("%+v", r)
					}
				}
				return
			}
			r := checktest.Want(t, got, bgp.TargetMD5, c.status, c.saw)
			if r.Facts.Str(bgp.FactMD5) != c.word || !strings.Contains(r.Saw, "TCP segments") {
				t.Errorf("%+v", r.Facts)
			}
		})
	}
}
