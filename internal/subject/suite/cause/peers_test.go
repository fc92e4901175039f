package cause

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestPeerOffLink wants a node that does not even answer ARP told from one that only answers no ping.
func TestPeerOffLink(t *testing.T) {
	t.Parallel()
	lost := of(link.NodePing.ID, "b 10.0.0.2", probe.Found(probe.Fail, "none of 5 packets came back")).
		With(probe.FactNode, "b").With(probe.FactReceived, 0)
	for name, c := range map[string]struct {
		ping probe.Result
		says string
	}{
		"no answer to a ping": {lost, "b does not answer from a"},
		"none to ARP":         {lost.With(probe.FactReason, "host-unreachable"), "does not answer ARP or NDP"},
	} {
		d := diagnose.Explain(found(c.ping), All())
		if causesOf(found(c.ping)) != "peer-down b medium, node-cut-off low" || !strings.Contains(d.Causes[0].Says, c.says) {
			t.Errorf("%s: %+v", name, d.Causes)
		}
	}
}

// TestKubeletPortRefused wants a port that refuses told from one that is silent.
func TestKubeletPortRefused(t *testing.T) {
	t.Parallel()
	attach := func(says string) probe.Result {
		return of(probe.CheckPlaced, "pod", probe.Found(probe.Fail, "%s", says)).
			With(probe.FactReason, string(facts.ReasonAttach))
	}
	lease := of(facts.CheckNodeLease, "", probe.Found(probe.OK, "renewed 2s ago"))
	for says, want := range map[string]string{
		"error dialing backend: dial tcp 10.0.0.1:10250: connect: connection refused": "port refuses the API server",
		"error dialing backend: dial tcp 10.0.0.1:10250: i/o timeout":                 "cannot reach them",
	} {
		d := diagnose.Explain(found(attach(says), lease), All())
		if len(d.Causes) != 1 || d.Causes[0].ID != "kubelet-port-blocked" || !strings.Contains(d.Causes[0].Says, want) {
			t.Errorf("%s: %+v", says, d.Causes)
		}
	}
}
