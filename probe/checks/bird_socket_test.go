package checks

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

func TestBirdNotThere(t *testing.T) {
	t.Parallel()
	empty := node(t, map[string]string{"run/x": ""})
	want(t, run(t, BirdSocket, empty, backend("vxlan"), self("10.0.0.1")), "/run/calico/bird.ctl", probe.Skip, "vxlan")
	want(t, run(t, BirdSocket, empty, backend("bird"), self("10.0.0.1")), "/run/calico/bird.ctl", probe.Fail,
		"has not started")
	want(t, run(t, BirdSocket, empty), "/run/calico/bird6.ctl", probe.Unknown, "not known")
	want(t, run(t, BGPSession, empty, backend("bird"), self("10.0.0.1")), "/run/calico/bird.ctl", probe.Unknown,
		"peers not asked")
	blind := node(t, nil)
	blind.Only = []string{"/etc"}
	want(t, run(t, BirdSocket, blind, backend("bird")), "/run/calico/bird.ctl", probe.Skip, "not visible")

	dead := node(t, map[string]string{"run/calico/x": ""})
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dead.Root, "run/calico/bird.ctl"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	silent := run(t, BirdSocket, dead, backend("bird"))
	want(t, silent, "/run/calico/bird.ctl", probe.Fail, "does not answer within ")
	l.Close()
	want(t, run(t, BirdSocket, dead, backend("bird")), "/run/calico/bird.ctl", probe.Fail, "nothing listens")
	// A migration from BIRD to VXLAN leaves the socket behind until the node boots.
	for _, none := range []string{"vxlan", "none"} {
		for _, check := range []*probe.Check{BirdSocket, BGPSession} {
			want(t, run(t, check, dead, backend(none)), "/run/calico/bird.ctl", probe.Skip, none, "left over from before")
		}
	}
}
