package cause

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/compare"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// differsNight is a node on which a check is bad that is good on its baseline nodes, with the areas of node-state.
type differsNight struct {
	f diagnose.Findings
}

func differsAt(bad ...string) *differsNight {
	n := &differsNight{f: diagnose.Findings{Node: "node-a"}}
	for _, check := range bad {
		n.says("node-a", check, probe.Fail)
		n.says("node-b", check, probe.OK)
	}
	return n
}

func (n *differsNight) says(node, check string, s probe.Status) *differsNight {
	return n.add(node, probe.Result{Check: check, Target: "x", Status: s, Saw: "seen"})
}

func (n *differsNight) add(node string, r probe.Result) *differsNight {
	n.f.Add(probe.Event{Type: probe.EventResult, Node: node, Result: &r})
	return n
}

// state is an area with items, name and value in turn.
func (n *differsNight) state(node, area string, pairs ...string) *differsNight {
	values := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		values[pairs[i]] = pairs[i+1]
	}
	return n.add(node, probe.Result{Check: nodestate.NodeState.ID, Target: area, Status: probe.Info, Saw: "values",
		Facts: probe.Facts{nodestate.FactArea: area, nodestate.FactItems: values}})
}

// both are areas of node-a and node-b.
func (n *differsNight) both(area string, here, there []string) *differsNight {
	return n.state("node-a", area, here...).state("node-b", area, there...)
}

// differs is the cause, nil where there is none.
func (n *differsNight) differs() *probe.Cause {
	for _, c := range diagnose.Explain(n.f, diagnose.Suite{Rules: []*diagnose.Rule{All().Rule("node-differs")}}).Causes {
		return &c
	}
	return nil
}

// TestDiffersNames wants the cause to name what differs, whatever it is.
func TestDiffersNames(t *testing.T) {
	t.Parallel()
	const notrack = "ip raw PREROUTING: daddr 10.96.0.10 udp dport 53 notrack"
	const place = "plugins.io.containerd.grpc.v1.cri.cni.conf_dir"
	for name, c := range map[string]struct {
		night *differsNight
		want  string
	}{
		"a blackhole route": {differsAt(link.NodePing.ID).both(nodestate.AreaRoutes, []string{"blackhole 10.88.0.12 proto boot", ""}, nil),
			"only on node-a: route blackhole 10.88.0.12"},
		"an IPsec policy": {differsAt(pod.PodTCP.ID).both(nodestate.AreaIPsec, []string{"out from 0.0.0.0/0 to 10.244.0.0/16 allow", ""}, nil),
			"only on node-a: xfrm policy out from 0.0.0.0/0 to 10.244.0.0/16"},
		"rules without tracking": {differsAt(dns.DNSCluster.ID).both(nodestate.AreaFirewall,
			[]string{notrack, "", "ip raw OUTPUT: daddr 10.96.0.10 notrack", "", "ip raw PREROUTING", "hook prerouting, notrack"}, nil), notrack},
		"proxy_arp": {differsAt(pod.PodPing.ID).both(nodestate.AreaSysctls, []string{"net/ipv4/conf/cali*/proxy_arp", "0"},
			[]string{"net/ipv4/conf/cali*/proxy_arp", "1"}), "sysctl net/ipv4/conf/cali*/proxy_arp: 0 here, 1 on node-b"},
		"a neighbour": {differsAt(link.NodePing.ID).both(nodestate.AreaNeighbours, []string{"10.88.0.12 dev <uplink>",
			"permanent 02:00"}, nil),
			"neighbour entry 10.88.0.12 dev <uplink>: permanent 02:00"},
		"another name server": {differsAt(dns.DNSCluster.ID).both(nodestate.AreaKubelet, []string{"clusterDNS",
			"10.96.0.100"},
			[]string{"clusterDNS", "10.96.0.10"}), "kubelet's clusterDNS: 10.96.0.100 here, 10.96.0.10 on node-b"},
		"few processes": {differsAt(felix.FelixLive.ID).both(nodestate.AreaKubelet, []string{"podPidsLimit", "20", "x", "1"},
			[]string{"x", "1"}), "only on node-a: kubelet's podPidsLimit: 20"},
		"another folder of networks": {differsAt(cni.CNIConfig.ID).both(nodestate.AreaContainerd, []string{place,
			"/k3s/net.d"}, []string{"version", "2"}).
			both(nodestate.AreaRuntime, []string{"cni.confDir", "/k3s/net.d"}, []string{"cni.confDir", "/etc/cni/net.d"}),
			"only on node-a: containerd's file: " + place + ": /k3s/net.d"},
		"the plugin is disabled": {differsAt(runtime.CRIHealth.ID).both(nodestate.AreaContainerd, []string{
			"disabled_plugins", "[ cri ]"},
			[]string{"disabled_plugins", "[]"}), "containerd's file: disabled_plugins: [ cri ] here, [] on node-b"},
		"few files": {differsAt(facts.CheckPodsStart).both(nodestate.AreaLimits, []string{"containerd open files",
			"113 soft, 1048576 hard"},
			[]string{"containerd open files", "1048576 soft, 1048576 hard"}), "limit: containerd open files: 113 soft"},
		"a lock that is a folder": {differsAt(felix.FelixLive.ID).both(nodestate.AreaPaths, []string{
			"/run/xtables.lock", "folder 0755"},
			[]string{"/run/xtables.lock", "file 0600"}), "/run/xtables.lock: folder 0755 here, file 0600 on node-b"},
		"a folder that is read-only": {differsAt(facts.CheckCalicoPod).both(nodestate.AreaPaths, []string{"/opt/cni/bin",
			"folder 0755 ro"},
			[]string{"/opt/cni/bin", "folder 0755"}), "/opt/cni/bin: folder 0755 ro here"},
		"another environment": {differsAt(overlay.OverlayTunnels.ID).both(nodestate.AreaCalico, []string{
			"FELIX_VXLANPORT", "4799", "IP", "autodetect"},
			[]string{"IP", "autodetect"}), "only on node-a: calico-node's environment: FELIX_VXLANPORT: 4799"},
		"kube-proxy": {differsAt(service.ServiceNodePort.ID).both(nodestate.AreaProxy, []string{"nodePortAddresses",
			"192.168.77.0/24", "mode", "iptables"},
			[]string{"mode", "iptables"}), "only on node-a: kube-proxy's nodePortAddresses: 192.168.77.0/24"},
		"a queue that delays": {differsAt(pod.PodPing.ID).both(nodestate.AreaQueues, []string{"<uplink> queue", "netem"},
			[]string{"<uplink> queue", "noqueue"}), "tc <uplink> queue: netem here"},
		"a braced value": {differsAt(pod.PodPing.ID).both(nodestate.AreaRules, []string{"{pod} lookup 9", ""}, nil),
			"ip rule (pod) lookup 9"},
	} {
		got := c.night.differs()
		if got == nil || got.Confidence != probe.Medium || !strings.Contains(got.Says, c.want) || len(got.Fix.Manifest) == 0 {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}

// TestDiffersNot wants no cause where a difference cannot be the reason.
func TestDiffersNot(t *testing.T) {
	t.Parallel()
	arp := func(n *differsNight) *differsNight {
		return n.both(nodestate.AreaSysctls, []string{"net/ipv4/conf/cali*/proxy_arp", "0"}, []string{"net/ipv4/conf/cali*/proxy_arp", "1"})
	}
	cut := probe.Result{Check: nodestate.NodeState.ID, Status: probe.Info,
		Facts: probe.Facts{nodestate.FactArea: nodestate.AreaRoutes,
			nodestate.FactItems: map[string]string{"a": ""}, nodestate.FactLeftOut: 3}}
	for name, n := range map[string]*differsNight{
		"nothing is bad":       arp(differsAt().says("node-a", pod.PodPing.ID, probe.OK)),
		"it touches the other": arp(differsAt(runtime.ContainerdHealth.ID)),
		"it is bad there too": arp(differsAt().says("node-a", pod.PodPing.ID, probe.Fail).says("node-b",
			pod.PodPing.ID, probe.Fail)),
		"not asked there": arp(differsAt().says("node-a", pod.PodPing.ID, probe.Fail)),
		"another one is set alike": arp(differsAt(pod.PodPing.ID)).
			state("node-c", nodestate.AreaSysctls, "net/ipv4/conf/cali*/proxy_arp", "0").says("node-c", pod.PodPing.ID, probe.OK),
		"of pods that are not there": differsAt(pod.PodPing.ID).both(nodestate.AreaSysctls, []string{"net/ipv4/conf/cali*/proxy_arp", "1"},
			[]string{"net/ipv4/ip_forward", "1"}),
		"sizes": differsAt(pod.PodPing.ID, facts.CheckPodsStart).both(nodestate.AreaSysctls, []string{"fs/file-max",
			"1"}, []string{"fs/file-max", "2"}).
			both(nodestate.AreaSystem, []string{"kernel", "5.15"}, []string{"kernel", "6.1"}).
			both(nodestate.AreaLimits, []string{"kubelet open files", "2048 soft"}, []string{"kubelet open files", "1024 soft"}),
		"an area that was not read": differsAt(felix.FelixLive.ID).state("node-a", nodestate.AreaCalico, "FELIX_X", "1"),
		"folders that are worse there": differsAt(felix.FelixLive.ID).both(nodestate.AreaPaths,
			[]string{"/lib/modules", "folder 0755", "/opt/cni/bin", "folder 0755"},
			[]string{"/lib/modules", "missing", "/opt/cni/bin", "folder 0755 ro noexec"}),
		"flags that are not seen": differsAt(facts.CheckPodsStart).both(nodestate.AreaKubelet, []string{"--pod-max-pids",
			"20", "x", "1"},
			[]string{"x", "1"}),
		"an area that was cut": differsAt(pod.PodPing.ID).state("node-a", nodestate.AreaRoutes,
			"blackhole 10.88.0.12", "").add("node-b", cut),
	} {
		if got := n.differs(); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestDiffersInMuch wants many differences told with low confidence, and those that nodes that work may have too.
func TestDiffersInMuch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		night *differsNight
		has   string
	}{
		"four things": {differsAt(pod.PodPing.ID).both(nodestate.AreaSysctls,
			[]string{"net/ipv4/conf/cali*/proxy_arp", "0", "net/ipv4/ip_forward", "0", "net/ipv4/conf/all/arp_filter", "1"},
			[]string{"net/ipv4/conf/cali*/proxy_arp", "1", "net/ipv4/ip_forward", "1", "net/ipv4/conf/all/arp_filter", "0"}).
			both(nodestate.AreaIPsec, []string{"out from a to b block", ""}, nil), "proxy_arp"},
		"a program of others": {differsAt(pod.PodPing.ID).both(nodestate.AreaProcesses, []string{"keepalived", "runs"}, nil),
			"only on node-a: process keepalived"},
	} {
		if got := c.night.differs(); got == nil || got.Confidence != probe.Low || !strings.Contains(got.Says, c.has) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestDiffersListed wants a comparison to list what differs, bounded, and the systems once.
func TestDiffersListed(t *testing.T) {
	t.Parallel()
	n := differsAt(pod.PodPing.ID).both(nodestate.AreaSysctls, []string{"net/ipv4/conf/cali*/proxy_arp", "0", "fs/file-max", "1"},
		[]string{"net/ipv4/conf/cali*/proxy_arp", "1", "fs/file-max", "2"}).
		both(nodestate.AreaSystem, []string{"kernel", "5.15", "os", "Ubuntu 22.04"}, []string{"kernel", "6.1", "os",
			"Debian 12"})
	got := strings.Join(compare.Nodes(n.f), "\n")
	for _, want := range []string{"differs: sysctl net/ipv4/conf/cali*/proxy_arp: 0 here, 1 on node-b",
		"differs: system 5.15 here, 6.1 on node-b; Ubuntu 22.04 here, Debian 12 on node-b", "1 more differences: see node-state"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	healthy := differsAt().both(nodestate.AreaSystem, []string{"kernel", "5.15"}, []string{"kernel",
		"6.1"}).says("node-b", "x-y", probe.OK)
	if got := strings.Join(compare.Nodes(healthy.f), "\n"); strings.Contains(got, "differs") {
		t.Error(got)
	}
}

// TestResidual wants what is left over asked about what no proven cause explains, behind a reason that is as sure, and
// before a symptom, which it explains where it covers all its evidence.
func TestResidual(t *testing.T) {
	t.Parallel()
	rule := func(id, check string, weight int, symptom bool) *diagnose.Rule {
		return &diagnose.Rule{ID: id, Layer: diagnose.LayerServices, Symptom: symptom,
			Match: func(f diagnose.Findings) []diagnose.Case {
				bad := f.Bad(check)
				if len(bad) == 0 {
					return nil
				}
				return []diagnose.Case{{Says: id, For: diagnose.Clues(weight, bad)}}
			}}
	}
	night := differsAt(pod.PodPing.ID, pod.PodTCP.ID).both(nodestate.AreaIPsec, []string{
		"out from a to b block", ""}, nil).
		says("node-a", "other-check", probe.Fail)
	for want, rules := range map[string][]*diagnose.Rule{
		"proven node-differs":  {rule("proven", pod.PodTCP.ID, diagnose.Proof, false)},
		"reason node-differs":  {rule("reason", pod.PodTCP.ID, diagnose.Strong, false)},
		"node-differs":         {rule("symptom", pod.PodTCP.ID, diagnose.Strong, true)},
		"node-differs symptom": {rule("symptom", "other-check", diagnose.Strong, true)},
		"reason node-differs symptom": {rule("symptom", "other-check", diagnose.Strong, true), rule("reason",
			pod.PodTCP.ID, diagnose.Strong, false)},
		"node-differs hinted": {rule("hinted", pod.PodTCP.ID, diagnose.Hint, false)},
		"proven other": {rule("proven", pod.PodTCP.ID, diagnose.Proof, false), rule("other",
			pod.PodPing.ID, diagnose.Proof, false)},
		"reason node-differs unproven": {rule("reason", pod.PodTCP.ID, diagnose.Strong, false), rule("unproven",
			"other-check", diagnose.Hint, true)},
	} {
		var got []string
		for _, c := range diagnose.Explain(night.f, diagnose.Suite{Rules: append(rules, All().Rule("node-differs"))}).Causes {
			got = append(got, c.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestDiffersFlood wants a node that says very much compared in no time.
func TestDiffersFlood(t *testing.T) {
	t.Parallel()
	n := differsAt(pod.PodPing.ID)
	for i := range 1500 {
		pairs := []string{}
		for j := range 40 {
			pairs = append(pairs, fmt.Sprintf("ip x %d-%d: drop", i, j), "")
		}
		n.state("node-a", []string{nodestate.AreaFirewall, nodestate.AreaRoutes, fmt.Sprint("area", i)}[i%3], pairs...)
	}
	n.state("node-b", nodestate.AreaFirewall).state("node-b", nodestate.AreaRoutes).state("node-c", nodestate.AreaFirewall)
	began := time.Now()
	if got := n.differs(); got == nil || got.Confidence == probe.High || len(got.Says) > 1000 {
		t.Errorf("%+v", got)
	}
	if len(compare.Nodes(n.f)) > 15 || time.Since(began) > 20*time.Second {
		t.Errorf("%v", time.Since(began))
	}
}
