//go:build e2e

package ask

import (
	"os"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealForwarding disables IPv6 forwarding.
func TestRealForwarding(t *testing.T) {
	if !nstest.Enter(t, "") {
		return
	}
	const forward6 = "net/ipv6/conf/all/forwarding"
	h, six := &probe.Host{Root: "/", Proc: "/proc"}, checktest.Self("fd09::1")
	for value, expected := range map[string]struct {
		status probe.Status
		saw    string
	}{"1": {probe.OK, "1"}, "0": {probe.Fail, "does not forward"}} {
		must.Do(t, os.WriteFile("/proc/sys/"+forward6, []byte(value), 0o644))
		checktest.Want(t, checktest.Run(t, nodeSysctlCheck, h, six), forward6, expected.status, expected.saw)
	}
}
