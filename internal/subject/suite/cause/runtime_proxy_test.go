package cause

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestRuntimeProxy wants the proxy named by what pods say of it and by the runtime's environment, likely by one of
// them and sure by both.
func TestRuntimeProxy(t *testing.T) {
	t.Parallel()
	set := of(cni.CNIToken.ID, cni.TargetRuntimeProxy, probe.Found(probe.Info, "containerd has a proxy"))
	said := func(words string) probe.Result {
		s := facts.SandboxFailed(`Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "4f5a": plugin type="calico" failed (add): error getting ClusterInformation: Get "https://10.96.0.1:443/apis/crd.projectcalico.org/v1/clusterinformations/default": ` + words)
		return s.On(of(facts.CheckPodsStart, s.Starts, probe.Found(probe.Fail, "2 pods wait: %s", s.Message))).
			With(facts.Starts, s.Starts).With(facts.Message, s.Message).With(facts.Plugin, s.Plugin)
	}
	for name, c := range map[string]struct {
		of    diagnose.Findings
		cause string
		sure  probe.Confidence
	}{
		"it does not say why": {found(set, said("unexpected EOF")), "runtime-proxy", probe.Medium},
		"the pods":            {found(said("Service Unavailable")), "runtime-proxy", probe.Medium},
		"both":                {found(set, said("Service Unavailable")), "runtime-proxy", probe.High},
		"another matter":      {found(said("dial tcp 10.96.0.1:443: i/o timeout")), "cni-plugin-fails", probe.Medium},
	} {
		d := diagnose.Explain(c.of, All())
		if len(d.Causes) != 1 || d.Causes[0].ID != c.cause || d.Causes[0].Confidence != c.sure {
			t.Errorf("%s: %+v", name, d.Causes)
		}
	}
	if d := diagnose.Explain(found(set), All()); len(d.Causes) > 0 {
		t.Errorf("where pods start: %+v", d.Causes)
	}
}
