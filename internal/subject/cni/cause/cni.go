package cause

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// cniConfigMissing is a node whose pods get no network at all.
func cniConfigMissing(f diagnose.Findings) []diagnose.Case {
	none := diagnose.Keep(f.Failed(cni.CNIConfig.ID), diagnose.Because(cni.CNINone, cni.CNIUnusable))
	said := evidence.KubeletSaid(f, facts.UnreadyNetwork)
	if len(none) == 0 && (f.Answered(cni.CNIConfig.ID) || len(said) == 0) {
		return nil
	}
	c := diagnose.Case{
		For: slices.Concat(diagnose.Suggests(none), diagnose.Hints(said), diagnose.Shows(evidence.NotReadyNetwork(f))),
		Covers: append(diagnose.Covers(cni.CNIConfig.ID, runtime.ContainerdHealth.ID, runtime.CRIHealth.ID,
			facts.CheckNodeReady,
			facts.CheckNodeTaints), evidence.PodsUnconnected...),
	}
	if len(none) > 0 {
		c.Says = "no new pod gets a network on {node}: " + none[0].Saw
		if len(said) == 0 { // the kubelet asks its runtime every few seconds, which itself may have it in memory
			c.For = append(c.For, diagnose.Hints(evidence.NotReadyNetwork(f))...)
		}
	} else {
		c.Says, c.For[0].Weight = "no new pod gets a network on {node}: "+said[0].Saw, diagnose.Strong
	}
	return []diagnose.Case{c}
}

// cniConfigUnread is containerd/containerd#11209.
func cniConfigUnread(f diagnose.Findings) []diagnose.Case {
	unread := diagnose.Keep(f.Failed(cni.CNIConfig.ID), diagnose.Because(cni.CNIUnread))
	if len(unread) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: "no new pod gets a network on {node}: " + unread[0].Saw,
		For: slices.Concat(diagnose.Suggests(unread), diagnose.Hints(evidence.NotReadyNetwork(f)),
			diagnose.Shows(evidence.KubeletSaid(f, facts.UnreadyNetwork))),
		Covers: append(diagnose.Covers(cni.CNIConfig.ID, runtime.ContainerdHealth.ID, runtime.CRIHealth.ID,
			facts.CheckNodeReady,
			facts.CheckNodeTaints), evidence.PodsUnconnected...),
	}}
}

// cniConfigShadowed is another plugin's file in the way.
func cniConfigShadowed(f diagnose.Findings) []diagnose.Case {
	shadowed := diagnose.Keep(f.Failed(cni.CNIConfig.ID), diagnose.Because(cni.CNIShadowed))
	if len(shadowed) == 0 {
		return nil
	}
	weight := diagnose.Strong // CRI-O may be told a network by name
	if len(f.With(facts.CheckNodeReady, facts.Runtime, "containerd"))+len(f.With(facts.CheckNodeReady, facts.Runtime,
		"docker")) > 0 {
		weight = diagnose.Proof
	}
	c := diagnose.Case{
		Says:   "new pods of {node} get another plugin's network: " + shadowed[0].Saw,
		Args:   map[string]diagnose.Arg{"file": diagnose.FileArg(shadowed[0].Facts.Str(probe.FactFile))},
		For:    diagnose.Clues(weight, shadowed),
		Covers: append(diagnose.Covers(cni.CNIConfig.ID, pod.PodPing.ID, pod.PodTCP.ID), evidence.PodsUnconnected...),
	}
	if behind := shadowed[0].Facts.Str(cni.FactBehind); behind != "" && !path.IsAbs(behind) {
		c.Fix = &renamedBack
	}
	return []diagnose.Case{c}
}

// renamedBack is for Calico's file that something renamed.
var renamedBack = probe.Fix{
	Says: "Find what renamed Calico's file and keep it off this node, or it does so again. Then have install-cni write the file again.",
	Manifest: []string{
		"ssh {node} ls -la --full-time /etc/cni/net.d",
		"kubectl get pods -A -o wide --field-selector spec.nodeName={node} | grep -i -e cilium -e cni -e multus",
	},
	OnlyIf: []probe.Conditional{
		{If: "the other plugin is not used any more, and no pod of it is on this node", Manifest: []string{
			"ssh {node} sudo mv {file} /root/", "kubectl delete pod -n {namespace} {pod}"}},
	},
	Radius: "new pods of this node; BGP sessions of the node close and come back within seconds; pods that started meanwhile have to be recreated",
}

// cniPluginMissing is a program that is not there.
func cniPluginMissing(f diagnose.Findings) []diagnose.Case {
	if alien := diagnose.Keep(f.Failed(cni.CNIConfig.ID), diagnose.Because(cni.CNIAlien)); len(alien) > 0 {
		return []diagnose.Case{{
			Says: fmt.Sprintf("no new pod gets a network on {node}: %s", strings.Join(diagnose.ListOf(alien[0], cni.FactAlien), ", ")),
			For:  diagnose.Proves(alien), Covers: append(diagnose.Covers(cni.CNIConfig.ID), evidence.PodsUnconnected...),
			Fix:  &runnablePlugins,
			Args: map[string]diagnose.Arg{"plugin": diagnose.FileArg(firstWord(diagnose.ListOf(alien[0], cni.FactAlien)))},
		}}
	}
	missing := diagnose.Keep(f.Failed(cni.CNIConfig.ID), diagnose.Because(cni.CNIPlugins))
	if len(missing) == 0 {
		return nil
	}
	c := diagnose.Case{
		Says: "no new pod gets a network on {node}: " + missing[0].Saw, For: diagnose.Proves(missing),
		Covers: append(diagnose.Covers(cni.CNIConfig.ID), evidence.PodsUnconnected...),
	}
	if named := diagnose.ListOf(missing[0], cni.FactPlugins); len(named) > 0 && !slices.Contains(named, "calico") {
		c.Fix, c.Args = &othersPlugins,
			map[string]diagnose.Arg{"file": diagnose.FileArg(missing[0].Facts.Str(probe.FactFile))}
	}
	return []diagnose.Case{c}
}

// othersPlugins is for a network of others, the first by name, whose programs are gone.
var othersPlugins = probe.Fix{
	Says: "Install that network's plugins on the node again, or set its file aside where it is not used any more: the runtime then uses the next one.",
	Manifest: []string{"ssh {node} 'ls -l /etc/cni/net.d /opt/cni/bin'",
		"kubectl get pods -A -o wide --field-selector spec.nodeName={node} | grep -i -e cni -e multus -e cilium -e flannel"},
	OnlyIf: []probe.Conditional{{If: "that network is not used any more", Manifest: []string{"ssh {node} sudo mv {file} /root/"}}},
	Radius: "reading changes nothing; new pods of this node get the next network in /etc/cni/net.d; running pods are not touched",
}

// firstWord returns the first word of the first text of a list, "" where there is none.
func firstWord(list []string) string {
	for _, text := range list {
		word, _, _ := strings.Cut(text, " ")
		return word
	}
	return ""
}

// runnablePlugins replaces plugins that are there and cannot start.
var runnablePlugins = probe.Fix{
	Says:     "Replace the plugin by one for this CPU. Restart calico-node if it is one of Calico's: install-cni copies them again. Else reinstall the package that it came with.",
	Manifest: []string{"ssh {node} 'uname -m; sudo file {plugin}'"},
	OnlyIf: []probe.Conditional{
		{If: "it is calico or calico-ipam, and calico-node's image is for this CPU",
			Manifest: []string{"kubectl delete pod -n {namespace} {pod}"}},
		{If: "it is another one, and came with the package kubernetes-cni",
			Manifest: []string{"ssh {node} 'sudo apt-get install --reinstall kubernetes-cni || sudo dnf reinstall -y kubernetes-cni'"}},
	},
	Radius: "this node only: BGP sessions of the node close and come back within seconds; running pods keep their network",
}

// cniNoExec is cni-plugin#891.
func cniNoExec(f diagnose.Findings) []diagnose.Case {
	bound := diagnose.Keep(f.Failed(cni.CNIConfig.ID), diagnose.Because(cni.CNINoExec))
	if len(bound) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: "no new pod gets a network on {node}: " + bound[0].Saw,
		Args: map[string]diagnose.Arg{"file": diagnose.FileArg(bound[0].Facts.Str(cni.FactFolder))},
		For:  diagnose.Proves(bound), Covers: append(diagnose.Covers(cni.CNIConfig.ID), evidence.PodsUnconnected...),
	}}
}

// nodenameWrong is a Calico that thinks it is elsewhere.
func nodenameWrong(f diagnose.Findings) []diagnose.Case {
	other := diagnose.Keep(f.Failed(cni.CNINodename.ID), diagnose.Because("other"))
	missing := diagnose.Keep(f.Failed(cni.CNINodename.ID), diagnose.Because("missing"))
	// calico-node writes the file before it starts Felix and BIRD.
	started := []string{facts.CheckCalicoPod, felix.FelixLive.ID, bgp.BirdSocket.ID}
	runs := f.Where(func(r diagnose.Finding) bool { return r.Status == probe.OK && slices.Contains(started, r.Check) })
	switch {
	case len(other) > 0:
		return []diagnose.Case{{Says: "Calico knows {node} by another name: /var/lib/calico/nodename says " + other[0].Saw,
			For: diagnose.Proves(other), Covers: append(diagnose.Covers(cni.CNINodename.ID), evidence.PodsUnconnected...)}}
	case len(missing) > 0 && len(runs) > 0:
		return []diagnose.Case{{
			Says:   "new pods on {node} get no network: calico-node runs, but its file /var/lib/calico/nodename is gone",
			For:    slices.Concat(diagnose.Suggests(missing), diagnose.Hints(runs)),
			Covers: append(diagnose.Covers(cni.CNINodename.ID, facts.CheckCalicoPod), evidence.PodsUnconnected...),
		}}
	}
	return nil
}
