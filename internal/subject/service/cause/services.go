package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// brokenPath are the findings that a service's address does not answer while a server
// behind it does, in its family and by its transport; the first of answering is behind
// the first of broken.
func brokenPath(f diagnose.Findings) (broken, answering []diagnose.Finding) {
	for _, id := range []string{datastore.DatastoreLatency.ID, dns.DNSCluster.ID} {
		for _, service := range evidence.ToService(f.Failed(id)) {
			behind := diagnose.Keep(evidence.ToServers(f.Of(id)), func(r diagnose.Finding) bool {
				good := r.Status == probe.OK || r.Status == probe.Warn && id == datastore.DatastoreLatency.ID
				return good && diagnose.FamilyOf(r) == diagnose.FamilyOf(service) &&
					r.Facts.Str(probe.FactTransport) == service.Facts.Str(probe.FactTransport)
			})
			if len(behind) == 0 {
				continue
			}
			broken = append(broken, service)
			if !slices.ContainsFunc(answering,
				func(r diagnose.Finding) bool { return diagnose.QuestionOf(r) == diagnose.QuestionOf(behind[0]) }) {
				answering = append(answering, behind[0])
			}
		}
	}
	return broken, answering
}

// kubeProxyRadius is what a restart of kube-proxy touches.
const kubeProxyRadius = "this node only; the rules that are there stay while it starts, and open connections go on"

// kubeProxyFix restarts kube-proxy on this node where the API did not say whether it is a pod.
var kubeProxyFix = probe.Fix{
	Says:     "Restart kube-proxy on this node: it writes all its rules again.",
	Manifest: []string{"kubectl -n kube-system get pods -l k8s-app=kube-proxy --field-selector spec.nodeName={node}"},
	OnlyIf: []probe.Conditional{{
		If:       "that lists a pod",
		Manifest: []string{"kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName={node}"},
	}},
	Radius: kubeProxyRadius,
}

// restartKubeProxy is the fix of a case, by the kube-proxy pods that the API has of this node.
func restartKubeProxy(f diagnose.Findings, c diagnose.Case) diagnose.Case {
	for _, r := range f.Of(facts.CheckNodeReady) {
		if _, known := r.Facts[facts.KubeProxy]; !known {
			continue
		}
		if pods := diagnose.ListOf(r, facts.KubeProxy); len(pods) > 0 {
			c.Fix = &probe.Fix{
				Says: kubeProxyFix.Says, Radius: kubeProxyRadius,
				Manifest: []string{"kubectl -n kube-system delete pod {proxy}"},
			}
			c.Args = map[string]diagnose.Arg{"proxy": diagnose.PodArg(pods[0])}
			return c
		}
		c.Fix = &probe.Fix{
			Says: "No kube-proxy pod runs on this node: find what translates its services (a program of the host, " +
				"the distribution's kubelet, eBPF), and restart that.",
			Manifest: []string{
				"ssh {node} \"pgrep -a kube-proxy; systemctl list-units --no-pager --type=service | grep -iE 'kube|k3s|rke2|k0s'\"",
				"kubectl get pods -A -o wide --field-selector spec.nodeName={node}",
			},
			Radius: evidence.OnlyReads,
		}
		return c
	}
	return c
}

// kubeProxyRulesLost is a flush behind kube-proxy's back.
func kubeProxyRulesLost(f diagnose.Findings) []diagnose.Case {
	broken, direct := brokenPath(f)
	says, weight, lost := "", diagnose.Proof, diagnose.Keep(f.Failed(service.KubeProxyHealth.ID),
		diagnose.About(service.TargetServices))
	switch {
	case len(lost) > 0:
		says = lost[0].Saw
	case len(broken) > 0 && f.Fine(service.KubeProxyHealth.ID):
		if lost = wrongRules(f); len(lost) < 2 { // one service's endpoints may just have changed
			return nil
		}
		says, weight = "kube-proxy on {node} reports healthy, and its rules in the kernel are not those of the Services: "+
			lost[0].Saw+"; "+lost[1].Saw, diagnose.Strong
	default:
		return nil
	}
	return []diagnose.Case{restartKubeProxy(f, diagnose.Case{
		Says: says, For: slices.Concat(diagnose.Clues(weight, lost), diagnose.Shows(broken), diagnose.Shows(direct)),
		Covers: append(evidence.Serviceless, evidence.CalicoDown...),
	})}
}

// wrongRules returns a finding of each service whose connections kube-proxy's rules do not lead to an endpoint.
func wrongRules(f diagnose.Findings) []diagnose.Finding {
	var out []diagnose.Finding
	for _, reason := range []string{service.ReasonUntranslated, service.ReasonNoEndpoint} {
		for _, r := range f.With(service.ServiceDestination.ID, probe.FactReason, reason) {
			same := func(o diagnose.Finding) bool {
				return o.Facts.Str(service.FactService) == r.Facts.Str(service.FactService)
			}
			if !slices.ContainsFunc(out, same) {
				out = append(out, r)
			}
		}
	}
	return out
}

// proxyNotUp is the fix of a kube-proxy that hangs in its start.
var proxyNotUp = probe.Fix{
	Says: "See what it waits for: the API server it is told (its kubeconfig, --master), its certificate or token, or its Node by name (--hostname-override).",
	Manifest: []string{"kubectl -n kube-system logs -l k8s-app=kube-proxy --prefix --tail=20  # where it is a pod",
		"ssh {node} 'sudo journalctl -u kube-proxy -n 20 --no-pager; ps -o args= -C kube-proxy'  # where it is a service",
		"kubectl -n kube-system get configmap kube-proxy -o yaml | grep -n -e server -e hostnameOverride"},
	Radius: evidence.OnlyReads,
}

// kubeProxyStuck is a kube-proxy that is alive and does not work.
func kubeProxyStuck(f diagnose.Findings) []diagnose.Case {
	var stuck []diagnose.Finding
	for _, r := range f.Failed(service.KubeProxyHealth.ID) {
		if code, _ := r.Facts.Num(probe.FactCode); r.Target == "" && (code >= 500 || diagnose.ReasonOf(r) == "timeout") {
			stuck = append(stuck, r)
		}
	}
	if starts := f.With(service.KubeProxyHealth.ID, probe.FactReason, service.ReasonNotUp); len(starts) > 0 {
		broken, _ := brokenPath(f)
		listens := diagnose.Keep(f.Elsewhere(service.KubeProxyHealth.ID),
			func(r diagnose.Finding) bool { return r.Status == probe.OK })
		return []diagnose.Case{{Says: "kube-proxy on {node} has not come up: " + starts[0].Saw, Fix: &proxyNotUp,
			For: slices.Concat(diagnose.Suggests(starts), diagnose.Shows(broken),
				diagnose.Hints(listens[:min(1, len(listens))])),
			Covers: evidence.Serviceless}}
	}
	if len(stuck) == 0 {
		return nil
	}
	broken, _ := brokenPath(f)
	c := diagnose.Case{Says: "kube-proxy does not keep its rules up to date: " + stuck[0].Saw,
		For: append(diagnose.Proves(stuck), diagnose.Shows(broken)...), Covers: evidence.Serviceless}
	if diagnose.ReasonOf(stuck[0]) == "timeout" { // so are a loopback that is cut off, and a node short of CPU
		c.For[0].Weight = diagnose.Strong
		if kubelet := evidence.KubeletAnswers(f); len(kubelet) > 0 { // on the same loopback, and in time
			c.For = append(c.For, diagnose.Hints(kubelet)...)
		} else if load := evidence.Loads(f.Failed(host.NodeLoad.ID)); len(load) > 0 {
			c.Against = diagnose.Hints(load)
		}
	}
	return []diagnose.Case{restartKubeProxy(f, c)}
}

// kubeProxyDead is a kube-proxy that ended and left its rules.
func kubeProxyDead(f diagnose.Findings) []diagnose.Case {
	if c, ok := leftNothing(f); ok {
		return []diagnose.Case{c}
	}
	var dead []diagnose.Finding
	for _, r := range f.Bad(service.KubeProxyHealth.ID) {
		if n, _ := r.Facts.Num(service.FactPublished); n > 0 && r.Status == probe.Warn &&
			diagnose.ReasonOf(r) != service.ReasonNotUp {
			dead = append(dead, r)
		}
	}
	if len(dead) == 0 {
		return nil
	}
	broken, direct := brokenPath(f)
	c := diagnose.Case{Says: "kube-proxy does not run: " + dead[0].Saw,
		For:    append(diagnose.Suggests(dead), diagnose.Hints(broken)...),
		Covers: evidence.Serviceless}
	c.For = append(c.For, diagnose.Shows(direct)...)
	for _, r := range f.Of(facts.CheckNodeReady) {
		if _, known := r.Facts[facts.KubeProxy]; known && len(diagnose.ListOf(r, facts.KubeProxy)) == 0 {
			c.Fix = &noProxyPod
		}
	}
	for _, r := range f.Elsewhere(service.KubeProxyHealth.ID) {
		if r.Status == probe.OK { // so this cluster has kube-proxy
			c.For = append(c.For, diagnose.Clue{Finding: r, Weight: diagnose.Hint})
			break
		}
	}
	return []diagnose.Case{c}
}

// leftNothing is a node whose services do not work, where neither kube-proxy is to be seen nor anything that it
// has written.
func leftNothing(f diagnose.Findings) (diagnose.Case, bool) {
	here := func(r diagnose.Finding) bool { return r.Target == "" && r.Facts.Str(probe.FactAddress) != "" }
	none := diagnose.Keep(f.Of(service.KubeProxyHealth.ID), func(r diagnose.Finding) bool {
		n, known := r.Facts.Num(service.FactPublished)
		return here(r) && r.Status == probe.Skip && known && n == 0
	})
	broken, direct := brokenPath(f)
	if len(none) == 0 || len(broken) == 0 {
		return diagnose.Case{}, false
	}
	there := diagnose.Keep(f.Elsewhere(service.KubeProxyHealth.ID),
		func(r diagnose.Finding) bool { return here(r) && r.Status == probe.OK })
	return diagnose.Case{Says: "no Service works from {node}: " + none[0].Saw, Fix: &noProxyPod,
		For: slices.Concat(diagnose.Suggests(none), diagnose.Hints(there[:min(1, len(there))]), diagnose.Hints(broken),
			diagnose.Shows(direct)),
		Covers: slices.Concat(evidence.Serviceless, evidence.CalicoDown)}, true
}

// noProxyPod is what to do where no pod of kube-proxy runs on the node: it may have none, or be a program
// of the host.
var noProxyPod = probe.Fix{
	Says: "No kube-proxy pod runs on this node: see whether its DaemonSet skips the node, or a program of the host ended.",
	Manifest: []string{
		"kubectl -n kube-system get daemonsets,pods -o wide | grep -e kube-proxy -e NAME",
		"ssh {node} \"pgrep -a kube-proxy; systemctl list-units --all --no-pager --type=service | grep -iE 'kube|k3s|rke2|k0s'\"",
	},
	Radius: evidence.OnlyReads,
}

// servicePathBroken is what is known when kube-proxy itself says nothing.
func servicePathBroken(f diagnose.Findings) []diagnose.Case {
	broken, direct := brokenPath(f)
	if len(broken) == 0 {
		return nil
	}
	return []diagnose.Case{restartKubeProxy(f, diagnose.Case{
		Says: fmt.Sprintf("services do not work on {node}: %s does not answer (%s), and the server behind it does (%s)",
			broken[0].Target, broken[0].Saw, direct[0].Target),
		For:    append(diagnose.Suggests(broken), diagnose.Shows(direct)...),
		Covers: append(evidence.Serviceless, evidence.CalicoDown...),
	})}
}
