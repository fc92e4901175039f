package checks

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

func TestContainerdNotThere(t *testing.T) {
	t.Parallel()
	empty := node(t, map[string]string{"run/x": ""})
	runs := func(name string) probe.Target { return probe.Target{Kind: probe.KindRuntime, Name: name} }
	want(t, run(t, ContainerdHealth, empty, runs("cri-o://1.34.1")), "", probe.Skip, "cri-o")
	want(t, run(t, ContainerdHealth, empty, runs("containerd://2.4.2")), "", probe.Fail, "no socket")
	want(t, run(t, ContainerdHealth, empty), "", probe.Unknown, "not known")
	blind := node(t, nil)
	blind.Only = []string{"/etc"}
	want(t, run(t, ContainerdHealth, blind, runs("containerd://2.4.2")), "", probe.Skip, "not visible")
}

// TestContainerdSilent wants a daemon that accepts and does not answer named in
// each of its parts, in the time of one call.
func TestContainerdSilent(t *testing.T) {
	t.Parallel()
	h := node(t, map[string]string{"run/containerd/x": ""})
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(h.Root, "run/containerd/containerd.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	began := time.Now()
	got := run(t, ContainerdHealth, h)
	for _, part := range []string{"version", "health", "cri-status", "tasks"} {
		want(t, got, part, probe.Fail, "no answer within ")
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the four calls waited for each other: %v", took)
	}
	l.Close()
	want(t, run(t, ContainerdHealth, h), "/run/containerd/containerd.sock", probe.Fail, "nobody listens")
}
