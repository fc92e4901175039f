//go:build e2e

package ask

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealHost injects real faults into a namespace: disabled forwarding, a missing peer on the link, and a full disk.
func TestRealHost(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture+`
mount --make-rprivate /
mount -t tmpfs -o size=1m tmpfs /var/log
`) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	write := func(name, text string) {
		t.Helper()
		must.Do(t, os.WriteFile(name, []byte(text), 0o644))
	}
	const forward = "net/ipv4/ip_forward"
	write("/proc/sys/"+forward, "1")
	checktest.Want(t, checktest.Run(t, runnable(link.NodeSysctl), h), forward, probe.OK, "1")
	write("/proc/sys/"+forward, "0")
	checktest.Want(t, checktest.Run(t, runnable(link.NodeSysctl), h), forward, probe.Fail, "does not forward")

	checktest.Want(t, checktest.Run(t, runnable(firewall.NodeConntrack), h), "", probe.OK, "entries")

	peer := checktest.At(probe.KindNode, "peer", "10.9.0.2") // an address on the link that no machine has
	checktest.Want(t, checktest.Run(t, runnable(link.NodePing), h, peer), "peer 10.9.0.2", probe.Fail, "none of 5")
	checktest.Eventually(t, func() bool {
		return slices.ContainsFunc(checktest.Run(t, runnable(link.NodeNeighbours), h, peer),
			func(r probe.Result) bool { return r.Target == "peer 10.9.0.2" && r.Status == probe.Fail })
	})

	checktest.Want(t, checktest.Run(t, runnable(host.NodeDisk), h), "/var/log", probe.OK, "100 % of")
	write("/var/log/fill", strings.Repeat("x", 950<<10))
	checktest.Want(t, checktest.Run(t, runnable(host.NodeDisk), h), "/var/log", probe.Fail, "7 % of")
}
