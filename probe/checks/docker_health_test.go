package checks

import (
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

func TestDockerHealth(t *testing.T) {
	t.Parallel()
	want(t, run(t, DockerHealth, node(t, map[string]string{"run/x": ""})), "", probe.Skip, "no docker on this node")

	h := node(t, map[string]string{"run/x": ""})
	l, err := net.Listen("unix", filepath.Join(h.Root, "run/docker.sock"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/_ping", says(200, "OK"))
	mux.HandleFunc("/info", says(200, "<html>not docker</html>"))
	go func() { _ = http.Serve(l, mux) }() // until the listener is closed
	defer l.Close()
	got := run(t, DockerHealth, h)
	want(t, got, "_ping", probe.OK, "OK")
	want(t, got, "info", probe.Unknown, "reading dockerd's /info") // not understood is not good
}
