package ask

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
)

func TestDockerHealth(t *testing.T) {
	t.Parallel()
	checktest.Want(t, checktest.Run(t, dockerHealthCheck, checktest.Node(t, map[string]string{"run/x": ""})), "",
		probe.Skip,
		"no docker on this node")
	asDocker := probe.Target{Kind: probe.KindRuntime, Name: "docker://20.10.24"}
	checktest.Want(t, checktest.Run(t, dockerHealthCheck, checktest.Node(t, map[string]string{"run/x": ""}), asDocker), "",
		probe.Fail,
		"though the kubelet uses docker")

	h := checktest.Node(t, map[string]string{"run/x": ""})
	l := must.Get(net.Listen("unix", filepath.Join(h.Root, "run/docker.sock")))(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/_ping", checktest.Says(200, "OK"))
	mux.HandleFunc("/info", checktest.Says(200, "<html>not docker</html>"))
	go func() { _ = http.Serve(l, mux) }() // until the listener is closed
	defer l.Close()
	checktest.Want(t, checktest.Run(t, dockerHealthCheck, h), "", probe.Skip, "could start an inactive docker")
	shim := filepath.Join(h.Root, "run/dockershim.sock")
	must.Do(t, os.WriteFile(shim, nil, 0o600))
	checktest.Want(t, checktest.Run(t, dockerHealthCheck, h), "_ping", probe.OK, "OK")
	must.Do(t, os.Remove(shim))
	got := checktest.Run(t, dockerHealthCheck, h, asDocker)
	checktest.Want(t, got, "_ping", probe.OK, "OK")
	checktest.Want(t, got, "info", probe.Unknown, "reading dockerd's /info") // an answer that cannot be read is not ok
}
