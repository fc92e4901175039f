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
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// cniConfigMissing is a node whose pods get no network at all.
var cniConfigMissing = &diagnose.Rule{
	ID: "cni-config-missing", Layer: diagnose.LayerCalico, Title: "the runtime has no usable CNI configuration",
	Doc: `The runtime reads the first file of /etc/cni/net.d; Calico's install-cni writes 10-calico.conflist there when calico-node starts. With none, or one that cannot be understood, the kubelet calls the node NotReady ("cni plugin not initialized"), taints it, and no new pod gets a network; those that run go on. Somebody removed the file (a cleanup, another plugin's uninstaller, an image update of /etc), or install-cni has not got so far: then its own cause is named.
Told from a runtime that hangs by its answer; from a wrong plugin that is used in Calico's place by the file.`,
	Fix: probe.Fix{
		Says: "Have install-cni write it again, by starting calico-node anew on this node.",
		Manifest: []string{
			"ssh {node} ls -la /etc/cni/net.d",
			"kubectl delete pod -n {namespace} {pod}",
		},
		Radius: "this node only: BGP sessions of the node end and come back within seconds (graceful restart keeps its routes), policy stays as it is; running pods are not touched",
	},
	Wants: []string{cni.CNIConfig.ID}, RuledOut: []string{runtime.CRIHealth.ID, start.InitStall.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}

// cniConfigUnread is containerd/containerd#11209.
var cniConfigUnread = &diagnose.Rule{
	ID: "cni-config-unread", Layer: diagnose.LayerRuntime, Title: "containerd has not loaded the CNI configuration on disk",
	Doc: `containerd reads /etc/cni/net.d at its start and at each change, of which the kernel tells it by a watch on that folder. A folder that was removed or renamed, as by "rm -r /etc/cni", a clean-up or a restored backup, takes the watch with it; containerd does not set it up again on the new one. Calico's file is there then and right, containerd still says "no network config found", the node is NotReady ("cni plugin not initialized") and no new pod gets a network. Those that run go on.
Told from a file that is missing, or in another folder, by the file; from one that cannot be understood by reading it.`,
	Fix: probe.Fix{
		Says:     "Start containerd anew: it then reads the folder and watches it.",
		Manifest: []string{"ssh {node} ls -la --full-time /etc/cni/net.d", "ssh {node} sudo systemctl restart {containerd}"},
		Radius:   "this node only; containers go on running, exec and logs that are open end{together}",
	},
	RuledOut: []string{start.InitStall.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}

// cniConfigShadowed is another plugin's file in the way.
var cniConfigShadowed = &diagnose.Rule{
	ID: "cni-config-shadowed", Layer: diagnose.LayerCalico, Title: "another plugin's CNI configuration comes before Calico's",
	Doc: `containerd and docker use the first file of /etc/cni/net.d by name (CRI-O too, unless its cni_default_network names one), so what an earlier plugin left, or another installer wrote, may come before 10-calico.conflist. The node is Ready; pods that start get addresses that are not Calico's, without routes and policy. Pods that ran before are well, which hides it for days. Cilium renames every other file to NAME.cilium_bak (cni.exclusive, its default), each time that its agent starts: one of its pods on a node with Calico is enough.
Multus comes first by intent and is not meant here.`,
	Fix: probe.Fix{
		Says: "Put the other file aside if its plugin is no longer used, and make the pods anew that started meanwhile.",
		Manifest: []string{
			"ssh {node} ls -l /etc/cni/net.d",
			"kubectl get pods -A -o wide --field-selector spec.nodeName={node}  # those with addresses outside Calico's pools have to be made anew",
		},
		OnlyIf: []probe.Conditional{
			{If: "that other plugin is no longer used: the runtime sees the change by itself",
				Manifest: []string{"ssh {node} sudo mv {file} /root/"}},
		},
		Radius: "new pods of this node; those with a foreign address stay broken until they are made anew",
	},
	RuledOut: []string{cni.CNINodename.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
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
var cniPluginMissing = &diagnose.Rule{
	ID: "cni-plugin-missing", Layer: diagnose.LayerCalico, Title: "a configured CNI plugin is missing or not executable",
	Doc: `Pods fail with 'failed to find plugin "calico" in path [/opt/cni/bin]'. install-cni copies Calico's plugins there at calico-node's start; portmap and others come with it or with a package. A reinstalled package, an immutable image or upgrade-ipam, which removes calico and host-local before it migrates, takes them away. The node stays Ready.
A plugin for another CPU, or an empty one as a full disk leaves it, is there and cannot start: "fork/exec /opt/cni/bin/calico: exec format error".`,
	Fix: probe.Fix{
		Says: "Restart calico-node on this node: install-cni copies its plugins again. Others come with the package kubernetes-cni.",
		Manifest: []string{
			"ssh {node} ls -l /opt/cni/bin",
			"kubectl delete pod -n {namespace} {pod}",
		},
		Radius: "this node only: BGP sessions of the node close and come back within seconds; running pods are not touched",
	},
	Explains: []string{"cni-plugin-fails"},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
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
var cniNoExec = &diagnose.Rule{
	ID: "cni-noexec", Layer: diagnose.LayerCalico, Title: "the CNI plugin directory is mounted noexec",
	Doc: `The runtime starts the programs of /opt/cni/bin for every pod. Where that folder, or the file system that it is on, is mounted with the option noexec, as hardened images and /etc/fstab have it for /opt or /var, the kernel refuses: "fork/exec /opt/cni/bin/calico: permission denied". The files are there and have the right mode; install-cni even copies new ones.
Told from a plugin that is missing, or whose mode is wrong, by the mount's options.`,
	Fix: *letExecute, RuledOut: []string{cni.CNIToken.ID}, Explains: []string{"cni-plugin-fails"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		bound := diagnose.Keep(f.Failed(cni.CNIConfig.ID), diagnose.Because(cni.CNINoExec))
		if len(bound) == 0 {
			return nil
		}
		return []diagnose.Case{{
			Says: "no new pod gets a network on {node}: " + bound[0].Saw,
			Args: map[string]diagnose.Arg{"file": diagnose.FileArg(bound[0].Facts.Str(cni.FactFolder))},
			For:  diagnose.Proves(bound), Covers: append(diagnose.Covers(cni.CNIConfig.ID), evidence.PodsUnconnected...),
		}}
	},
}

// nodenameWrong is a Calico that thinks it is elsewhere.
var nodenameWrong = &diagnose.Rule{
	ID: "nodename-wrong", Layer: diagnose.LayerCalico, Title: "Calico's nodename file is missing, or names another node",
	Doc: `Calico's CNI plugin reads the node's name from /var/lib/calico/nodename. With another name than Kubernetes has (a host that was renamed, an image that was cloned from a running node, NODENAME set by hand) addresses are booked for a node that does not exist, and no route leads to the pods. Without the file every new pod fails with "stat /var/lib/calico/nodename: no such file or directory: check that the calico/node container is running".
A file that is missing because calico-node has not started yet is a symptom. Here calico-node, Felix or BIRD runs, so the file was removed or the volume is not the node's.`,
	Fix: probe.Fix{
		Says: "Have calico-node write it again; with a wrong name, look first where that comes from.",
		Manifest: []string{
			"ssh {node} cat /var/lib/calico/nodename; kubectl get node {node}",
			"kubectl get pod -n {namespace} {pod} -o yaml | grep -A4 NODENAME  # has to come from spec.nodeName",
		},
		OnlyIf: []probe.Conditional{
			{If: "NODENAME comes from spec.nodeName", Manifest: []string{"kubectl delete pod -n {namespace} {pod}"}},
		},
		Radius: "this node only: BGP sessions end and come back within seconds. Pods that were started under the wrong name have to be made anew",
	},
	RuledOut: []string{cni.CNIConfig.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}
