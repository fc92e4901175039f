package cause

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// runtimeProxy is projectcalico/calico#2941.
var runtimeProxy = &diagnose.Rule{
	ID: "runtime-proxy", Layer: diagnose.LayerRuntime, Title: "the CNI plugin connects to the API server through a proxy",
	Doc: `Where images are pulled through a proxy, the runtime is started with HTTPS_PROXY in its environment, mostly by a drop-in of its systemd unit. The CNI plugins that it starts inherit that. Where NO_PROXY does not hold the API server's address in Calico's kubeconfig (the Service's, such as 10.96.0.1, or a range with it), the plugin asks the proxy, which cannot reach it: new pods fail with "error getting ClusterInformation: Get https://10.96.0.1:443/...: Service Unavailable", "Forbidden" or "proxyconnect". Pods that run, and calico-node itself, are well.
Told from an API server that refuses by these words, which are HTTP's alone, and by the environment of the runtime. A proxy that does reach the API server does no harm.`,
	Fix: probe.Fix{
		Says: "Add the Services' range, the pods' range and the nodes' network to NO_PROXY of the runtime.",
		Manifest: []string{
			"ssh {node} \"systemctl show {runtime} -p Environment | sed -E 's#//[^@/ ]*@#//#g'\"  # without passwords",
			"ssh {node} systemctl cat {runtime} | grep -n '^# '  # the files that it comes from",
		},
		OnlyIf: []probe.Conditional{{If: "NO_PROXY in that file has the ranges",
			Manifest: []string{"ssh {node} 'sudo systemctl daemon-reload && sudo systemctl restart {runtime}'"}}},
		Radius: "this node only; containers outlive a restart of containerd or CRI-O. restarting Docker's containerd stops them unless live-restore is set{together}",
	},
	RuledOut: []string{datastore.DatastoreLatency.ID}, Explains: []string{"cni-plugin-fails"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		set := diagnose.Keep(f.Of(cni.CNIToken.ID), diagnose.About(cni.TargetRuntimeProxy))
		plugin := evidence.WaitingPods(f, facts.StartsCNI)
		pods := diagnose.Keep(plugin,
			func(r diagnose.Finding) bool { return r.Facts.Str(facts.Obstacle) == facts.ObstacleProxy })
		weight := diagnose.Hint
		if len(set) > 0 && len(pods) == 0 { // it asks the proxy, so no other word is of the API server's for certain
			pods, weight = diagnose.Keep(plugin, asksNoServer), 0
		}
		if len(pods) == 0 {
			return nil
		}
		c := diagnose.Case{For: slices.Concat(diagnose.Suggests(pods), diagnose.Clues(weight, set)),
			Covers: evidence.PodsUnconnected}
		c.Says = "no new pod gets a network on {node}: a proxy answers the CNI plugin in the API server's place: "
		if len(set) > 0 {
			c.Says = "no new pod gets a network on {node}: " + set[0].Saw + ": "
		}
		c.Says += pods[0].Facts.Str(facts.Message)
		return []diagnose.Case{c}
	},
}

// asksNoServer tells whether Calico's plugin got no answer from the API server, and did not dial it itself.
func asksNoServer(r diagnose.Finding) bool {
	says := r.Facts.Str(facts.Message)
	return r.Facts.Str(facts.Plugin) == "calico" && strings.Contains(says, `https://`) && strings.Contains(says, "Get ") &&
		!strings.Contains(says, "dial tcp") && !strings.Contains(says, "x509: ")
}
