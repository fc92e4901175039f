package checks

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

func TestDockerHealth(t *testing.T) {
	t.Parallel()
	want(t, run(t, DockerHealth, node(t, map[string]string{"run/x": ""})), "", probe.Skip, "no docker on this node")
	asDocker := probe.Target{Kind: probe.KindRuntime, Name: "docker://20.10.24"}
	want(t, run(t, DockerHealth, node(t, map[string]string{"run/x": ""}), asDocker), "", probe.Fail,
		"though the kubelet uses docker")

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
	want(t, run(t, DockerHealth, h), "", probe.Skip, "could start an inactive docker")
	shim := filepath.Join(h.Root, "run/dockershim.sock")
	if err := os.WriteFile(shim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, run(t, DockerHealth, h), "_ping", probe.OK, "OK")
	if err := os.Remove(shim); err != nil {
		t.Fatal(err)
	}
	got := run(t, DockerHealth, h, asDocker)
	want(t, got, "_ping", probe.OK, "OK")
	want(t, got, "info", probe.Unknown, "reading dockerd's /info") // not understood is not good
}
