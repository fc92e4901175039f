package checks

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

func TestCRIHealth(t *testing.T) {
	t.Parallel()
	want(t, run(t, CRIHealth, node(t, map[string]string{"run/x": ""})), "", probe.Unknown, "no socket at")
	h := node(t, map[string]string{"run/crio/x": ""})
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(h.Root, "run/crio/crio.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	got := run(t, CRIHealth, h) // accepts and stays silent
	for _, part := range []string{"version", "status", "containers"} {
		want(t, got, "/run/crio/crio.sock "+part, probe.Fail, "does not answer within ")
	}
	l.Close()
	want(t, run(t, CRIHealth, h), "/run/crio/crio.sock", probe.Fail, "nothing listens")
}
