package checks

import (
	"path/filepath"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird/birdtest"
)

func TestBird(t *testing.T) {
	t.Parallel()
	h := node(t, map[string]string{"run/calico/ipam.lock": ""})
	birdtest.Serve(t, filepath.Join(h.Root, "run/calico/bird.ctl"), "../bird/testdata/bird-1.6.8-restarting.txt")
	v4, v6 := "/run/calico/bird.ctl", "/run/calico/bird6.ctl"
	got := run(t, BirdSocket, h, backend("bird"), self("10.0.0.1"), self("fd00::1"))
	want(t, got, v4, probe.OK, "BIRD 1.6.8 answers, router ID 10.0.0.1")
	want(t, got, v6, probe.Fail, "no such socket")
	want(t, run(t, BirdSocket, h, backend("bird"), self("10.0.0.1")), v6, probe.Skip, "no IPv6 address")
	want(t, run(t, BirdSocket, h), v6, probe.Skip, "only BIRD for IPv4")

	got = run(t, BGPSession, h, backend("bird"), self("10.0.0.1"))
	r := want(t, got, "127.0.0.2", probe.OK, "Established", "1 routes taken")
	if r.Facts.Str(FactPeer) != "127.0.0.2" || r.Facts.Str(FactSource) != "127.0.0.1" {
		t.Errorf("%+v", r.Facts)
	}
	r = want(t, got, "127.0.0.3", probe.Fail, "Connection refused")
	if r.Facts.Str(FactLastError) != "Socket: Connection refused" || len(r.Lines) == 0 {
		t.Errorf("%+v", r)
	}
	want(t, got, "127.0.0.4", probe.Fail, "Passive", "the other end has to dial")
	want(t, got, v4, probe.Warn, "graceful restart", "3 more protocols", "3m5")
	want(t, got, v6, probe.Skip, "no IPv6 address")
}

func TestBird2(t *testing.T) {
	t.Parallel()
	h := node(t, map[string]string{"run/bird/x": ""}) // not from a container
	birdtest.Serve(t, filepath.Join(h.Root, "run/bird/bird.ctl"), "../bird/testdata/bird-2.0.12.txt")
	got := run(t, BGPSession, h, backend("bird"), self("10.0.0.2"))
	want(t, got, "127.0.0.1", probe.OK, "Established", "0 routes taken, 1 given")
	want(t, got, "/run/bird/bird.ctl", probe.Info, "1 of 2 peers")
}
