package ask

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
)

func TestBirdMissing(t *testing.T) {
	t.Parallel()
	empty := checktest.Node(t, map[string]string{"run/x": ""})
	checktest.Want(t, checktest.Run(t, birdSocketCheck, empty, checktest.Backend("vxlan"), checktest.Self("10.0.0.1")),
		"/run/calico/bird.ctl", probe.Skip, "vxlan")
	checktest.Want(t, checktest.Run(t, birdSocketCheck, empty, checktest.Backend("bird"), checktest.Self("10.0.0.1")),
		"/run/calico/bird.ctl", probe.Fail,
		"has not started")
	checktest.Want(t, checktest.Run(t, birdSocketCheck, empty), "/run/calico/bird6.ctl", probe.Unknown, "unknown whether")
	checktest.Want(t, checktest.Run(t, bgpSessionCheck, empty, checktest.Backend("bird"), checktest.Self("10.0.0.1")),
		"/run/calico/bird.ctl", probe.Unknown,
		"cannot query peers")
	blind := checktest.Node(t, nil)
	blind.Only = []string{"/etc"}
	checktest.Want(t, checktest.Run(t, birdSocketCheck, blind, checktest.Backend("bird")), "/run/calico/bird.ctl",
		probe.Skip,
		"not visible")

	dead := checktest.Node(t, map[string]string{"run/calico/x": ""})
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dead.Root, "run/calico/bird.ctl"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	silent := checktest.Run(t, birdSocketCheck, dead, checktest.Backend("bird"))
	checktest.Want(t, silent, "/run/calico/bird.ctl", probe.Fail, "does not answer within ")
	l.Close()
	checktest.Want(t, checktest.Run(t, birdSocketCheck, dead, checktest.Backend("bird")), "/run/calico/bird.ctl",
		probe.Fail,
		"refuses connections")
	// A migration from BIRD to VXLAN leaves the socket behind until the node boots.
	for _, none := range []string{"vxlan", "none"} {
		for _, check := range []*probe.Check{birdSocketCheck, bgpSessionCheck} {
			checktest.Want(t, checktest.Run(t, check, dead, checktest.Backend(none)), "/run/calico/bird.ctl", probe.Skip, none,
				"stale")
		}
	}
}
