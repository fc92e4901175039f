package ask

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
)

func TestCRIHealth(t *testing.T) {
	t.Parallel()
	checktest.Want(t, checktest.Run(t, criHealthCheck, checktest.Node(t, map[string]string{"run/x": ""})), "",
		probe.Unknown,
		"no socket at")
	h := checktest.Node(t, map[string]string{"run/crio/x": ""})
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(h.Root, "run/crio/crio.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	got := checktest.Run(t, criHealthCheck, h) // accepts and stays silent
	for _, part := range []string{"version", "status", "containers"} {
		checktest.Want(t, got, "/run/crio/crio.sock "+part, probe.Fail, "does not answer within ")
	}
	l.Close()
	checktest.Want(t, checktest.Run(t, criHealthCheck, h), "/run/crio/crio.sock", probe.Fail, "nothing listens")
}
