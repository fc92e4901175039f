package checks

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// kubeletAt is a node whose kubelet is configured to answer where servers of the
// test do.
func kubeletAt(t *testing.T, healthz, api http.HandlerFunc) *probe.Host {
	t.Helper()
	plain, secure := httptest.NewServer(healthz), httptest.NewTLSServer(api)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	port := func(s *httptest.Server) uint16 { return netip.MustParseAddrPort(s.Listener.Addr().String()).Port() }
	config := fmt.Sprintf("healthzPort: %d\nport: %d\n", port(plain), port(secure))
	return node(t, map[string]string{"var/lib/kubelet/config.yaml": config})
}

func TestKubeletHealth(t *testing.T) {
	t.Parallel()
	got := run(t, KubeletHealth, kubeletAt(t, says(200, "ok"), says(401, "Unauthorized")))
	want(t, got, "healthz", probe.OK, "200")
	want(t, got, "api", probe.OK, "401")
	got = run(t, KubeletHealth, kubeletAt(t, says(500, "[-]syncloop failed"), says(500, "no")))
	want(t, got, "healthz", probe.Fail, "500", "syncloop failed")
	want(t, got, "api", probe.Fail, "500")

	h := node(t, map[string]string{"var/lib/kubelet/config.yaml": "healthzPort: 0\nport: 1\n"})
	got = run(t, KubeletHealth, h)
	want(t, got, "healthz", probe.Skip, "turns healthz off")
	want(t, got, "api", probe.Fail, "127.0.0.1:1", "refused")
}

func TestKubeletFrozen(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	frozen := func(http.ResponseWriter, *http.Request) { <-stop }
	h := kubeletAt(t, frozen, frozen)
	t.Cleanup(func() { close(stop) }) // before the servers are closed
	got := run(t, KubeletHealth, h)
	want(t, got, "healthz", probe.Fail, "no answer", "within ")
	want(t, got, "api", probe.Fail, "no answer", "within ")
}
