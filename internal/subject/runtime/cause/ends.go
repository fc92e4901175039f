package cause

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// podsDoNotEnd are pods that stay in Terminating.
func podsDoNotEnd(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Bad(facts.CheckPodsEnd) {
		namespace, pod, _ := strings.Cut(r.Facts.Str(facts.Pod), "/")
		n, _ := r.Facts.Num(facts.Pods)
		word := r.Facts.Str(facts.EndsNot)
		c := diagnose.Case{
			About: word, For: diagnose.Suggests([]diagnose.Finding{r}),
			Args: map[string]diagnose.Arg{"itsnamespace": diagnose.NamespaceArg(namespace), "itspod": diagnose.PodArg(pod)},
		}
		why, fix := whatHolds(f, r, &c)
		c.Says = fmt.Sprintf("%s on {node} should have ended %s ago: %s", evidence.CountOf(n, "pod"), diagnose.Lasting(diagnose.Num([]diagnose.Finding{r}, facts.Age)), why)
		if says := r.Facts.Str(facts.Message); says != "" {
			c.Says += ": " + says
		}
		c.Fix = fix
		out = append(out, c)
	}
	return out
}

// lookAtEnding shows a pod with its events.
const lookAtEnding = "kubectl describe pod -n {itsnamespace} {itspod} | tail -20"

// whatHolds says what keeps pods from ending and how to mend that, and adds what the node itself shows of it.
func whatHolds(f diagnose.Findings, r diagnose.Finding, c *diagnose.Case) (string, *probe.Fix) {
	switch r.Facts.Str(facts.EndsNot) {
	case facts.EndsNotCNI:
		lacks := r.Facts.Str(facts.EndLacks)
		fix := removeNetwork
		if lacks == facts.EndLacksNodename || lacks == facts.EndLacksKubeconfig || lacks == facts.EndLacksPlugin ||
			lacks == facts.EndLacksConfig {
			fix = writtenAnew
		}
		return "the CNI plugin does not remove their network (DEL)" + lackedWords[lacks], &fix
	case facts.EndsNotRuntime:
		stuck := diagnose.Keep(f.Of(host.NodeLoad.ID),
			func(o diagnose.Finding) bool { return len(diagnose.ListOf(o, host.FactStuckIn)) > 0 })
		c.For = append(c.For, diagnose.Shows(f.Failed(runtime.ContainerdHealth.ID), f.Failed(runtime.RuntimeGhosts.ID),
			stuck)...)
		why := "the runtime does not stop a container or a sandbox: its shim hangs, or a process of it cannot be killed"
		if len(stuck) > 0 {
			why += fmt.Sprintf(" (waiting in the kernel: %s)", strings.Join(diagnose.ListOf(stuck[0], host.FactStuckIn), ", "))
		}
		return why, &stopContainers
	case facts.EndsNotClean:
		busy := f.With(logs.DaemonLog.ID, logs.FactSignature, logs.SaysUnmount)
		if len(busy) == 0 {
			return "their containers have ended, and the kubelet does not get a volume unmounted or a cgroup removed", &unmountVolumes
		}
		c.For = append(c.For, diagnose.Shows(busy)...)
		return "their containers have ended, and a volume is in use and cannot be unmounted: " + busy[0].Facts.Str(logs.FactLine),
			&unmountVolumes
	}
	return "their containers run on, and the kubelet does not say why", nil
}

// lackedWords are the EndLacks words as the end of a sentence.
var lackedWords = map[string]string{
	facts.EndLacksNodename:   ", for its file with the node's name is gone, which calico-node writes at its start",
	facts.EndLacksKubeconfig: ", for its kubeconfig is gone, or its token is not accepted",
	facts.EndLacksDatastore:  ", for Calico's datastore does not answer it, or is marked as not ready",
	facts.EndLacksPlugin:     ", for the plugin's program is gone or cannot be executed",
	facts.EndLacksConfig:     ", for there is no network configuration any more",
}

// The fixes by what holds the pods.
var (
	removeNetwork = probe.Fix{
		Says: "Provide what the quoted message says the plugin lacks. The kubelet retries, so the pods then end automatically.",
		Manifest: []string{lookAtEnding, "ssh {node} sudo tail -50 /var/log/calico/cni/cni.log",
			`kubectl get clusterinformations.crd.projectcalico.org default -o jsonpath="{.spec.datastoreReady}"`},
		Radius: evidence.OnlyReads,
	}
	writtenAnew = probe.Fix{
		Says: "Have calico-node write it again: its install-cni writes plugins, configuration and kubeconfig at the pod's start, and calico-node the node's name. The pods end by themselves then.",
		Manifest: []string{lookAtEnding,
			"ssh {node} ls -l /var/lib/calico/nodename /etc/cni/net.d /opt/cni/bin/calico /opt/cni/bin/calico-ipam"},
		OnlyIf: []probe.Conditional{{If: "one of them is missing, or the token is not accepted", Manifest: []string{evidence.RestartCalico}}},
		Radius: "reading changes nothing; " + evidence.RestartRadius,
	}
	stopContainers = probe.Fix{
		Says: "See what the container's processes wait for. A process in state D ends only with what it waits for, mostly a disk or a file server, or with a reboot.",
		Manifest: []string{lookAtEnding, "ssh {node} sudo crictl pods --name {itspod}",
			"ssh {node} \"ps -eLo pid,ppid,stat,wchan:32,etime,args | awk '\\$3 ~ /^[DT]/'\""},
		OnlyIf: []probe.Conditional{
			{If: "the pod's shim is in state T", Manifest: []string{"ssh {node} sudo kill -CONT PID"}},
			{If: "none of its processes is in state D, and the shim does not answer: this ends that pod's containers",
				Manifest: []string{"ssh {node} sudo kill -KILL PID"}},
		},
		Radius: "reading changes nothing; a killed shim takes the containers of its one pod with it, which shall end anyway",
	}
	unmountVolumes = probe.Fix{
		Says: "Find what still uses the pod's volumes: a program on the node, mostly a monitoring agent or a scanner with a mount namespace of its own, or a shell in that folder.",
		Manifest: []string{lookAtEnding,
			"ssh {node} sudo journalctl -u {kubelet} --since -15min | grep -i -e unmount -e cgroup | tail -10",
			"kubectl get pod -n {itsnamespace} {itspod} -o jsonpath='{.metadata.uid}'  # UID",
			"ssh {node} 'sudo grep -l UID /proc/[0-9]*/mountinfo'  # the processes that have its volumes in their namespace"},
		Radius: evidence.OnlyReads,
	}
)
