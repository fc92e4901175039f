package checks

import (
	"net"
	"net/http"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestKubeProxyHealth needs kube-proxy's own port, and skips where that is taken.
func TestKubeProxyHealth(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:10256")
	if err != nil {
		t.Skip(err)
	}
	code := http.StatusOK
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })}
	go func() { _ = server.Serve(l) }() // until it is closed
	want(t, run(t, KubeProxyHealth, &probe.Host{}), "", probe.OK, "200 from 127.0.0.1:10256")
	code = http.StatusServiceUnavailable
	want(t, run(t, KubeProxyHealth, &probe.Host{}), "", probe.Fail, "503", "has not updated its rules")
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	want(t, run(t, KubeProxyHealth, &probe.Host{}), "", probe.Skip, "no kube-proxy listens")
}
