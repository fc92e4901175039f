package checks

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestFromPod wants a node that its pods do not reach to be a finding where Felix is set to that alone.
func TestFromPod(t *testing.T) {
	t.Parallel()
	lost := probe.Found(probe.Fail, "no answer").With(probe.FactReason, "timeout")
	felix := func(action string) probe.Target {
		out := probe.Target{Kind: probe.KindFelix, Name: "felix"}
		if action != "" {
			out.Attrs = map[string]string{settingToHost: action}
		}
		return out
	}
	pod := probe.Target{Kind: probe.KindLocal, Name: "default/a"}
	held := pod
	held.Attrs = map[string]string{probe.AttrPolicy: "default/deny"}
	other := held
	other.Name = "default/b"
	for name, c := range map[string]struct {
		targets []probe.Target
		r       probe.Result
		status  probe.Status
		action  string
	}{
		"set to drop":         {[]probe.Target{felix("DROP"), pod, other}, lost, probe.Warn, "drop"},
		"set to reject":       {[]probe.Target{felix("Reject"), pod}, lost, probe.Warn, "reject"},
		"set to nothing":      {[]probe.Target{felix(""), pod}, lost, probe.Warn, "drop"},
		"near: set to accept": {[]probe.Target{felix("ACCEPT"), pod}, lost, probe.Info, ""},
		"near: a policy":      {[]probe.Target{felix("DROP"), held}, lost, probe.Info, ""},
		"near: no Felix":      {[]probe.Target{pod}, lost, probe.Info, ""},
		"near: no route": {[]probe.Target{felix("DROP"), pod}, lost.With(probe.FactReason, "net-unreachable"),
			probe.Info, ""},
		"near: the node lets it in": {[]probe.Target{felix("DROP"), pod}, probe.Found(probe.OK, "connected"), probe.OK, ""},
	} {
		got := fromPod(&probe.Pass{Targets: c.targets, From: "default/a"}, c.r)
		if got.Status != c.status || got.Facts.Str(FactToHost) != c.action {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestKubeletGives wants it told where the kubelet gives pods no name server of the cluster's, and what it
// gives where that is another than the Service.
func TestKubeletGives(t *testing.T) {
	t.Parallel()
	h := node(t, map[string]string{"var/lib/kubelet/config.yaml": "clusterDNS: [127.0.0.1]\n"})
	got := run(t, DNSCluster, h, probe.Target{Kind: probe.KindDNS, Name: "service", Addr: self("127.0.0.2").Addr, Port: 1})
	for _, r := range got {
		if given, _ := r.Facts[FactGiven].([]string); (r.Facts.Str(FactRole) == RoleGiven) != (len(given) == 1) {
			t.Errorf("%+v", r)
		}
	}
	k := kubelet{pid: 1, config: "config.yaml"}
	if !k.givesNone() {
		t.Error("a kubelet that runs with a configuration without clusterDNS")
	}
	for name, k := range map[string]kubelet{
		"it gives one":                      {pid: 1, config: "config.yaml", ClusterDNS: []string{"10.96.0.10"}},
		"its configuration is not visible":  {pid: 1},
		"it is part of k3s, with arguments": {config: "config.yaml"},
	} {
		if k.givesNone() {
			t.Error(name)
		}
	}
}
