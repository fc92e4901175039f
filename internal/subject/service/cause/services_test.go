package cause

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/probe"
)

// TestServerBehind wants the server that is shown beside a dead service to be one of
// that service's, by the same transport.
func TestServerBehind(t *testing.T) {
	t.Parallel()
	f := diagnose.Findings{Node: "node-a"}
	add := func(check, target string, status probe.Status, role, transport string) {
		facts := probe.Facts{probe.FactRole: role, probe.FactTransport: transport}
		f.Add(probe.Event{Type: probe.EventResult, Node: "node-a",
			Result: &probe.Result{Check: check, Target: target, Status: status, Saw: "seen", Facts: facts}})
	}
	add(datastore.DatastoreLatency.ID, "endpoint 10.0.0.1:6443", probe.OK, probe.RoleEndpoint, "")
	add(datastore.DatastoreLatency.ID, "service 10.96.0.1:443", probe.OK, probe.RoleService, "")
	add(dns.DNSCluster.ID, "service 10.96.0.10:53 udp", probe.Fail, probe.RoleService, "udp")
	add(dns.DNSCluster.ID, "service 10.96.0.10:53 tcp", probe.Fail, probe.RoleService, "tcp")
	add(dns.DNSCluster.ID, "endpoint 10.244.0.5:53 tcp", probe.OK, probe.RoleEndpoint, "tcp")
	add(dns.DNSCluster.ID, "endpoint 10.244.0.5:53 udp", probe.Fail, probe.RoleEndpoint, "udp")
	broken, answering := brokenPath(f)
	if len(broken) != 1 || len(answering) != 1 || broken[0].Target != "service 10.96.0.10:53 tcp" ||
		answering[0].Target != "endpoint 10.244.0.5:53 tcp" {
		t.Errorf("%v is dead and %v answers", broken, answering)
	}
}
