package cause

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestFixes holds that fixes name what is there on this node.
func TestFixes(t *testing.T) {
	t.Parallel()
	result := func(check, target string, status probe.Status, facts probe.Facts) probe.Result {
		return probe.Result{Check: check, Target: target, Status: status, Saw: "seen", Facts: facts}
	}
	canal := result(facts.CheckCalicoPod, "kube-system/canal-x", probe.Fail,
		probe.Facts{facts.Pod: "kube-system/canal-x", facts.Owner: "canal"})
	killed := func(which string) probe.Result {
		return result(facts.CheckCalicoBudget, "", probe.Fail, probe.Facts{facts.Budget: 70, facts.Lived: 71,
			facts.BudgetProbe: which, facts.Period: 20})
	}
	version := func(kubelet, runtime string, server bool) probe.Result {
		return result(facts.CheckNodeReady, "", probe.OK, probe.Facts{facts.Kubelet: kubelet, facts.Runtime: runtime,
			facts.ControlPlane: server})
	}
	hung := func(socket string) probe.Result {
		return result(runtime.ContainerdHealth.ID, "version", probe.Fail,
			probe.Facts{probe.FactReason: "timeout", probe.FactSocket: socket})
	}
	quota := result(probe.CheckPlaced, "pod", probe.Unknown, probe.Facts{probe.FactReason: string(facts.ReasonQuota),
		probe.FactNamespace: "tools"})
	died := func(kind, in string) []probe.Result {
		return []probe.Result{result(firewall.PacketDrops.ID, "default/web 10.244.1.5", probe.Fail,
			probe.Facts{firewall.FactPlaceKind: kind, probe.FactPlaceIn: in, firewall.FactRuleChain: "INPUT"})}
	}
	for name, c := range map[string]struct {
		seen []probe.Result
		want string
	}{
		"a rule of the node":           {died(firewall.PlaceRule, probe.InNode), "ssh node-a 'sudo nft -a list ruleset;"},
		"a rule of a pod":              {died(firewall.PlaceRule, "default/web"), "-c 'in default/web drops'"},
		"rp_filter of a pod":           {died(firewall.PlaceRPFilter, "default/web"), "-c 'in default/web drops'"},
		"a queue of a pod":             {died("queue", "default/web"), "-c 'in default/web drops'"},
		"killed by its liveness probe": {[]probe.Result{killed("liveness")}, `"livenessProbe":{"initialDelaySeconds":430}`},
		"killed by its startup probe":  {[]probe.Result{killed("startup")}, `"startupProbe":{"failureThreshold":22}`},
		"killed, on Canal":             {[]probe.Result{killed("liveness"), canal}, "-n kube-system patch ds canal --type"},
		"containerd hangs": {[]probe.Result{hung("/run/containerd/containerd.sock"),
			version("v1.36.4", "containerd", true)}, "systemctl restart containerd"},
		"containerd of k3s hangs": {[]probe.Result{hung("/run/k3s/containerd/containerd.sock"),
			version("v1.34.1+k3s1", "containerd", false)}, "systemctl restart k3s-agent"},
		"containerd of RKE2 hangs": {[]probe.Result{hung("/run/k3s/containerd/containerd.sock"),
			version("v1.34.1+rke2r1", "containerd", true)}, "systemctl restart rke2-server"},
		"containerd of MicroK8s hangs": {[]probe.Result{hung("/var/snap/microk8s/common/run/containerd.sock"),
			version("v1.34.1", "containerd", false)}, "systemctl restart snap.microk8s.daemon-containerd"},
		"a quota in another namespace": {[]probe.Result{quota, canal}, "kubectl describe quota,limitrange -n tools"},
		"a clock that may be the other": {[]probe.Result{result(host.NodeClock.ID, "", probe.Fail,
			probe.Facts{host.FactSkew: 90})}, "ssh node-a timedatectl"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := diagnose.Findings{Node: "node-a"}
			for _, r := range c.seen {
				f.Add(probe.Event{Type: probe.EventResult, Node: "node-a", Result: &r})
			}
			causes := diagnose.Explain(f, All()).Causes
			if len(causes) == 0 || !slices.ContainsFunc(causes[0].Fix.Manifest,
				func(line string) bool { return strings.Contains(line, c.want) }) {
				t.Errorf("no fix has %q: %+v", c.want, causes)
			}
		})
	}
}

// TestFixNamesWhatExists wants a fix to restart, or to patch, what the API says is there.
func TestFixNamesWhatExists(t *testing.T) {
	t.Parallel()
	lost := probe.Result{Check: service.KubeProxyHealth.ID, Target: service.TargetServices, Status: probe.Fail,
		Saw: "no rules"}
	ready := func(f probe.Facts) probe.Result {
		return probe.Result{Check: facts.CheckNodeReady, Status: probe.OK, Saw: "Ready", Facts: f}
	}
	mtu := probe.Result{Check: cni.CNIMTU.ID, Status: probe.Fail, Saw: "1500 does not fit",
		Facts: probe.Facts{cni.FactRoom: 1450}}
	calico := func(f probe.Facts) probe.Result {
		f[facts.Pod] = "calico-system/calico-node-x"
		return probe.Result{Check: facts.CheckCalicoPod, Status: probe.OK, Saw: "ready", Facts: f}
	}
	const selector, configMap, installation = "-l k8s-app=kube-proxy", "patch configmap", "patch installation"
	for name, c := range map[string]struct {
		seen      []probe.Result
		has, none []string // among all that can be copied
		copied    string   // among what is copied at once
	}{
		"a kube-proxy pod": {[]probe.Result{lost, ready(probe.Facts{facts.KubeProxy: []string{"kube-proxy-x"}})},
			[]string{"delete pod kube-proxy-x"}, []string{selector}, "delete pod kube-proxy-x"},
		"no kube-proxy pod": {[]probe.Result{lost, ready(probe.Facts{facts.KubeProxy: []string{}})},
			[]string{"pgrep -a kube-proxy"}, []string{selector, "delete"}, "pgrep"},
		"not known": {[]probe.Result{lost, ready(nil)}, []string{"delete pod " + selector}, nil,
			"get pods " + selector},
		"Calico of the operator": {[]probe.Result{mtu, calico(probe.Facts{facts.Operator: true})}, []string{installation},
			[]string{configMap}, "ip -d link show"},
		"Calico in its namespace": {[]probe.Result{mtu, calico(probe.Facts{facts.Operator: false})},
			[]string{installation, configMap}, nil, "ip -d link show"},
		"Calico as recorded once": {[]probe.Result{mtu, calico(probe.Facts{})}, []string{installation},
			[]string{configMap}, "ip -d link show"},
		"the interface comes first": {[]probe.Result{mtu}, []string{"ip link set dev"}, nil, "ip -d link show"},
	} {
		f := diagnose.Findings{Node: "node-a"}
		for _, r := range c.seen {
			f.Add(probe.Event{Type: probe.EventResult, Node: "node-a", Result: &r})
		}
		causes := diagnose.Explain(f, All()).Causes
		if len(causes) != 1 {
			t.Fatalf("%s: %+v", name, causes)
		}
		all := strings.Join(commandsOf(causes[0].Fix), "\n")
		for _, text := range c.has {
			if !strings.Contains(all, text) {
				t.Errorf("%s: no %q in\n%s", name, text, all)
			}
		}
		for _, text := range c.none {
			if strings.Contains(all, text) {
				t.Errorf("%s: %q in\n%s", name, text, all)
			}
		}
		if first := strings.Join(causes[0].Fix.Manifest, "\n"); !strings.Contains(first, c.copied) ||
			strings.Contains(first, "patch") {
			t.Errorf("%s: copied at once:\n%s", name, first)
		}
	}
}

// TestDNSEmpty wants the Service without endpoints, and the replicas, in the cause's sentence.
func TestDNSEmpty(t *testing.T) {
	t.Parallel()
	causes := diagnose.Explain(recorded(t)["dns-without-endpoints"], All()).Causes
	const want = "the cluster's DNS is down: Service kube-system/kube-dns has no ready endpoint: " +
		"Deployment kube-system/coredns wants 0 replicas, and 0 are ready"
	if len(causes) != 1 || causes[0].Says != want {
		t.Errorf("%+v", causes)
	}
}

// TestEvidenceBelongs wants of a check's answers the one that says something about the cause.
func TestEvidenceBelongs(t *testing.T) {
	t.Parallel()
	f := diagnose.Findings{Node: "node-a"}
	add := func(check, target string, status probe.Status, f2 probe.Facts) {
		f.Add(probe.Event{Type: probe.EventResult, Node: "node-a",
			Result: &probe.Result{Check: check, Target: target, Status: status, Saw: "seen", Facts: f2}})
	}
	add(kubelet.KubeletHealth.ID, kubelet.TargetCertificate, probe.OK, nil)
	add(felix.FelixLive.ID, "", probe.Fail, probe.Facts{probe.FactReason: "timeout"})
	evidence := func(id string) []string {
		for _, c := range diagnose.Explain(f, All()).Causes {
			if c.ID == id {
				var out []string
				for _, clue := range c.For {
					out = append(out, strings.TrimSpace(clue.Check+" "+clue.Target))
				}
				return out
			}
		}
		return nil
	}
	if got := evidence("felix-stuck"); len(got) != 1 {
		t.Errorf("a certificate: %q", got)
	}
	add(kubelet.KubeletHealth.ID, "healthz", probe.OK, nil)
	if got := evidence("felix-stuck"); len(got) != 2 || got[1] != "kubelet-health healthz" {
		t.Errorf("healthz: %q", got)
	}
	add(dns.DNSCluster.ID, "endpoint 10.244.1.5:53 udp", probe.Fail,
		probe.Facts{probe.FactRole: probe.RoleEndpoint, probe.FactNode: "node-b"})
	add(pod.PodTCP.ID, "kube-system/calico-kube-controllers-x", probe.OK,
		probe.Facts{pod.FactDeclared: false, probe.FactNode: "node-c"})
	add(pod.PodTCP.ID, "default/web-c", probe.OK, probe.Facts{pod.FactDeclared: true, probe.FactNode: "node-c"})
	if got := evidence("dns-down"); !slices.Contains(got, "pod-tcp default/web-c") || len(got) != 2 {
		t.Errorf("a declared port: %q", got)
	}
	add(pod.PodTCP.ID, "default/web-b", probe.OK, probe.Facts{pod.FactDeclared: false, probe.FactNode: "node-b"})
	if got := evidence("dns-down"); !slices.Contains(got, "pod-tcp default/web-b") || len(got) != 2 {
		t.Errorf("the server's node: %q", got)
	}
}

// What changes something, as far as fixes have it, and those of them that take away what
// does not come back by itself.
var (
	changes = regexp.MustCompile(`kubectl .*\b(delete|patch|set|label|annotate|drain|edit|apply|rollout restart|adm policy)\b|sudo .*\b(systemctl (restart|stop|reboot|mask)|kill|pkill|mv|rm|sed -i|rmi|vacuum-size|swapoff|sysctl -w|set \S+ up|-[IP] [A-Z]+)\b`)
	forGood = regexp.MustCompile(`delete (node|blockaffinit)|kill -KILL|\brmi\b|vacuum|\bmv\b|--force\b|\bdrain\b|systemctl reboot`)
	// A condition behind a command is read when it has been copied.
	condition = regexp.MustCompile(`#.*\b(if|only|once|where|or|instead|unless|after)\b`)
)

// wrongWith says what of a fix must not stand where it is copied with the rest.
func wrongWith(fix probe.Fix) string {
	for _, block := range [][]string{fix.Manifest, fix.Operator} {
		for i, line := range block {
			command, _, _ := strings.Cut(line, "#")
			switch {
			case strings.HasPrefix(line, "#") && i+1 < len(block):
				return "a comment with a command below it: " + line
			case forGood.MatchString(command):
				return "what does not come back: " + line
			case changes.MatchString(command) && condition.MatchString(line):
				return "a condition that is read too late: " + line
			}
		}
	}
	return ""
}

// TestFixesToCopy wants no command among those of a fix, which people copy at once, that
// is right under a condition alone, or takes away what does not come back.
func TestFixesToCopy(t *testing.T) {
	t.Parallel()
	for name, fix := range fixesOf(t) {
		if wrong := wrongWith(fix); wrong != "" {
			t.Errorf("%s has %s", name, wrong)
		}
		if len(fix.Manifest) == 0 {
			t.Errorf("%s has nothing to copy", name)
		}
		for _, c := range fix.OnlyIf {
			if c.If == "" || len(c.Manifest) == 0 {
				t.Errorf("%s has an alternative without condition or commands: %+v", name, c)
			}
		}
	}
	for _, line := range []string{"kubectl delete node {node}", "kubectl -n x delete pod y  # once the reason is gone",
		"ssh {node} sudo kill -KILL PID", "kubectl drain {node} --ignore-daemonsets", "ssh {node} sudo systemctl reboot"} {
		if wrongWith(probe.Fix{Manifest: []string{"kubectl get nodes", line}}) == "" {
			t.Errorf("%s is let through", line)
		}
	}
	if wrongWith(probe.Fix{Manifest: []string{"# only where it is gone:", "kubectl get node"}}) == "" {
		t.Error("a comment does not part two blocks, and is let through")
	}
}

// fixesOf are the fixes of all rules, and those that their cases have in the recorded nights.
func fixesOf(t *testing.T) map[string]probe.Fix {
	t.Helper()
	out := map[string]probe.Fix{}
	for _, r := range All().Rules {
		out[r.ID] = r.Fix
		for name, fix := range r.Fixes {
			out[r.ID+" "+name] = fix
		}
	}
	for night, f := range recorded(t) {
		f = diagnose.Ready(f, All())
		for _, r := range All().Rules {
			for _, c := range r.Match(f) {
				out[r.ID+" "+c.About+" in "+night] = r.FixOf(c)
			}
		}
	}
	return out
}
