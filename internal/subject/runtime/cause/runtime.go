package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// runtimeGone is what follows from a runtime that does not answer.
var runtimeGone = append(evidence.AboutService(logs.ServiceContainerd, logs.ServiceDocker, logs.ServiceCRIO,
	logs.ServiceKubelet), diagnose.Covers(runtime.ContainerdHealth.ID, runtime.CRIHealth.ID, runtime.DockerHealth.ID,
	runtime.RuntimeGhosts.ID, kubelet.KubeletHealth.ID, start.InitStall.ID,
	facts.CheckNodeReady, facts.CheckNodeTaints, facts.CheckCalicoPod, facts.CheckControllers, facts.CheckPodsStart,
	facts.CheckPodsEnd)...)

// hangs are the reasons of a daemon that is there and does not speak.
var hangs = []string{"timeout", "closed", "reset"}

// stale is what may be said of containers while the runtime's state is old.
var stale = []string{"container-ghosts", "runtime-stuck", "upgrade-ipam-stuck", "install-cni-fails", "kubelet-frozen"}

// containerdHangs is incident 001 without docker.
func containerdHangs(f diagnose.Findings) []diagnose.Case {
	hung := diagnose.Keep(f.Failed(runtime.ContainerdHealth.ID), diagnose.Because(hangs...))
	all := slices.DeleteFunc(slices.Clone(hung), func(r diagnose.Finding) bool {
		return r.Target == "tasks" ||
			r.Target == "cri-status"
	})
	kubelets := slices.Concat(diagnose.Keep(hung, diagnose.About("cri-status")),
		diagnose.Keep(f.Failed(runtime.CRIHealth.ID), diagnose.Because(hangs...)))
	c := diagnose.Case{Covers: runtimeGone, Against: diagnose.Hints(f.Bad(host.NodeLoad.ID))}
	switch {
	case len(all) > 0:
		c.Says = fmt.Sprintf("containerd on {node} takes connections at %s and answers nothing: no container can start or end", evidence.SocketOf(all[0]))
		c.For = slices.Concat(diagnose.Proves(all), diagnose.Shows(kubelets),
			diagnose.Shows(evidence.KubeletSaid(f, facts.UnreadyRuntime, facts.UnreadyPLEG)))
	case len(diagnose.Keep(hung, diagnose.About("cri-status"))) > 0:
		c.Says = "containerd on {node} answers, and the part of it that the kubelet asks (CRI) does not: no pod can start or end"
		c.For = slices.Concat(diagnose.Suggests(kubelets),
			diagnose.Hints(evidence.KubeletSaid(f, facts.UnreadyRuntime, facts.UnreadyPLEG)))
	default:
		return nil
	}
	return []diagnose.Case{c}
}

// containerdDead is a containerd that ended.
func containerdDead(f diagnose.Findings) []diagnose.Case {
	dead := diagnose.Keep(f.Failed(runtime.ContainerdHealth.ID), diagnose.Because("refused", "missing"))
	if len(dead) == 0 {
		return containerdUnheard(f)
	}
	return []diagnose.Case{{
		Says: "containerd does not run on {node}: " + dead[0].Saw,
		For: slices.Concat(diagnose.Suggests(dead), diagnose.Hints(diagnose.Keep(f.Failed(runtime.CRIHealth.ID),
			diagnose.Because("refused", "missing"))),
			diagnose.Hints(evidence.KubeletSaid(f, facts.UnreadyRuntime, facts.UnreadyPLEG))),
		Covers: runtimeGone,
	}}
}

// containerdWithoutCRI is a containerd that is well and of no use to the kubelet.
func containerdWithoutCRI(f diagnose.Findings) []diagnose.Case {
	without := diagnose.Keep(f.Failed(runtime.ContainerdHealth.ID), diagnose.Because("unimplemented"))
	if len(without) == 0 {
		return withoutCRIByKubelet(f)
	}
	says, line := without[0].Saw, evidence.ServiceWrites(f, logs.ServiceContainerd, logs.SaysPlugin)
	if len(line) > 0 {
		says += "; " + line[0].Saw
	}
	return []diagnose.Case{{
		Says: "containerd on {node} runs, and not the part of it that the kubelet asks: " + says,
		For: slices.Concat(diagnose.Suggests(without),
			diagnose.Hints(diagnose.Keep(diagnose.Good(f, runtime.ContainerdHealth.ID),
				diagnose.About("version"))), diagnose.Shows(evidence.KubeletSaid(f, facts.UnreadyRuntime)), diagnose.Hints(line)),
		// Behind docker nobody asks that part.
		Against: diagnose.Suggests(diagnose.Good(f, runtime.DockerHealth.ID)), Covers: runtimeGone,
	}}
}

// dockerLostContainerd is incident 001.
func dockerLostContainerd(f diagnose.Findings) []diagnose.Case {
	ping := diagnose.Keep(diagnose.Good(f, runtime.DockerHealth.ID), diagnose.About("_ping"))
	info := diagnose.Keep(f.Failed(runtime.DockerHealth.ID), diagnose.About("info"))
	if len(ping) == 0 || len(info) == 0 {
		return nil
	}
	behind := diagnose.Keep(f.Failed(runtime.ContainerdHealth.ID),
		diagnose.Because(append([]string{"refused", "missing"}, hangs...)...))
	return []diagnose.Case{{
		Says: "dockerd on {node} answers its ping, and not what it has to ask containerd for: what it says of containers is old, and none can start or end",
		For: slices.Concat(diagnose.Suggests(info), diagnose.Shows(ping), diagnose.Hints(behind),
			diagnose.Hints(f.Failed(runtime.RuntimeGhosts.ID)),
			diagnose.Shows(evidence.KubeletSaid(f, facts.UnreadyRuntime, facts.UnreadyPLEG))),
		// Then dockerd waits for something else: a volume, a plugin.
		Against: diagnose.Hints(diagnose.Keep(diagnose.Good(f, runtime.ContainerdHealth.ID), diagnose.About("tasks"))),
		Covers:  runtimeGone,
	}}
}

// runtimeHangs is any other runtime: CRI-O, or cri-dockerd between kubelet and docker.
func runtimeHangs(f diagnose.Findings) []diagnose.Case {
	bad := diagnose.Keep(f.Failed(runtime.CRIHealth.ID),
		diagnose.Because(append([]string{"refused", "missing"}, hangs...)...))
	if len(bad) == 0 || len(f.Failed(runtime.ContainerdHealth.ID)) > 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: "the container runtime of {node} does not answer the kubelet: " + bad[0].Saw,
		For: slices.Concat(diagnose.Suggests(bad),
			diagnose.Hints(evidence.KubeletSaid(f, facts.UnreadyRuntime, facts.UnreadyPLEG)),
			diagnose.Hints(slices.DeleteFunc(evidence.NotPlaced(f, facts.ReasonRuntime), evidence.SilentExec))),
		// The same daemon answers elsewhere: one question of it hangs.
		Against: diagnose.Hints(diagnose.Good(f, runtime.CRIHealth.ID)), Covers: runtimeGone,
	}}
}

// shimHangs is one pod that holds up a whole node.
func shimHangs(f diagnose.Findings) []diagnose.Case {
	tasks := diagnose.Keep(f.Failed(runtime.ContainerdHealth.ID), diagnose.About("tasks"))
	if len(tasks) == 0 ||
		len(diagnose.Keep(diagnose.Good(f, runtime.ContainerdHealth.ID), diagnose.About("version"))) == 0 {
		return nil
	}
	c := diagnose.Case{
		Says: "containerd on {node} answers, and the list of what runs does not come: a shim may hold it up, or a busy disk",
		For:  slices.Concat(diagnose.Hints(tasks), diagnose.Hints(f.Failed(runtime.RuntimeGhosts.ID))), Covers: runtimeGone,
	}
	if shims := diagnose.ListOf(tasks[0], runtime.FactShims); len(shims) > 0 {
		c.Says = fmt.Sprintf("on {node} the shim of pod %s does not run, and holds up every list of containers",
			strings.Join(shims, ", "))
		c.For[0].Weight = diagnose.Proof
	}
	if ghosts := f.Failed(runtime.RuntimeGhosts.ID); len(ghosts) > 0 {
		c.Says += fmt.Sprintf("; %s is called running and has no process",
			strings.Join(diagnose.ListOf(ghosts[0], runtime.FactGhosts), ", "))
	}
	return []diagnose.Case{c}
}

// ofInit is what follows from a ghost: all that calico-node does not begin, where it
// is one of its init containers.
func ofInit(f diagnose.Findings) []diagnose.Cover {
	if len(evidence.InitByAPI(f)) > 0 {
		return evidence.NotStarted
	}
	return nil
}

// containerGhosts is a runtime whose state is wrong, without a reason that is seen.
func containerGhosts(f diagnose.Findings) []diagnose.Case {
	ghosts := f.Failed(runtime.RuntimeGhosts.ID)
	if len(ghosts) > 0 {
		return []diagnose.Case{{
			Says: fmt.Sprintf("on {node} the runtime calls containers running that have no process: %s",
				strings.Join(diagnose.ListOf(ghosts[0], runtime.FactGhosts), ", ")),
			For: slices.Concat(diagnose.Proves(ghosts), diagnose.Shows(evidence.InitByAPI(f))), Covers: ofInit(f),
		}}
	}
	// The API's word against what is on the node: that container's program is known.
	api, none := evidence.InitByAPI(f), diagnose.Good(f, start.InitStall.ID)
	if len(api) == 0 || len(none) == 0 || api[0].Status != probe.Fail || len(f.Failed(facts.CheckNodeLease)) > 0 {
		return nil
	}
	name := api[0].Facts.Str(facts.Container)
	return []diagnose.Case{{
		Says: fmt.Sprintf("init container %s of calico-node is called running, and on {node} there is no such process: the runtime's state is old", name),
		For:  slices.Concat(diagnose.Hints(api), diagnose.Suggests(none)), Covers: evidence.NotStarted,
		// The runtime itself knows a living process for each.
		Against: diagnose.Suggests(diagnose.Good(f, runtime.RuntimeGhosts.ID)),
	}}
}

// askRuntime is the fix of a runtime of which nothing is seen, of the kind that the API reports, "" where it
// reports none.
func askRuntime(kind string) probe.Fix {
	const cri, docker = "ssh {node} sudo timeout 5 crictl version", "ssh {node} sudo timeout 5 docker info --format ok"
	fix := probe.Fix{
		Says:     "Ask the runtime on the node, then restart it if it does not answer.",
		Manifest: []string{cri},
		OnlyIf: []probe.Conditional{
			{If: "it does not answer", Manifest: []string{"ssh {node} sudo systemctl restart {runtime}"}},
		},
		Radius: "this node only; containers outlive a restart of containerd or CRI-O{together}",
	}
	if kind == "containerd" || kind == "cri-o" {
		return fix
	}
	fix.Manifest = []string{cri, docker}
	fix.OnlyIf[0].If = "one of them does not answer; behind docker restart containerd first"
	fix.Radius = "this node only; containers outlive a restart of containerd or CRI-O. Restarting Docker stops them unless live-restore is set{together}"
	return fix
}

// runtimeStuck is as much as can be said while nothing gets onto the node.
func runtimeStuck(f diagnose.Findings) []diagnose.Case {
	placed, said := slices.DeleteFunc(evidence.NotPlaced(f, facts.ReasonRuntime), evidence.SilentExec),
		evidence.KubeletSaid(f,
			facts.UnreadyRuntime, facts.UnreadyPLEG)
	// The kubelet's loop waits for its runtime too, while its lease is renewed beside it.
	idle, alive := evidence.NotPlaced(f, facts.ReasonKubelet), diagnose.Good(f, facts.CheckNodeLease)
	if len(alive) == 0 || len(f.Bad(facts.CheckNodeLease)) > 0 { // it was late when it was read again
		idle = nil
	}
	if saidWhy(f) {
		placed, idle = nil, nil
	}
	logs := slices.Concat(evidence.ServiceWrites(f, logs.ServiceKubelet, logs.SaysRuntimeDown),
		diagnose.Keep(f.Bad(kubelet.KubeletHealth.ID), diagnose.About(probe.TargetRuntime)))
	if len(placed)+len(said)+len(idle)+len(logs) == 0 || f.Answered(runtime.ContainerdHealth.ID) ||
		f.Answered(runtime.CRIHealth.ID) || f.Answered(runtime.DockerHealth.ID) {
		return nil
	}
	c := diagnose.Case{
		Says: "the container runtime of {node} starts no container", Covers: runtimeGone,
		For:     slices.Concat(diagnose.Proves(placed), diagnose.Proves(said), diagnose.Suggests(logs)),
		Against: diagnose.Suggests(f.Failed(facts.CheckNodeLease)),
	}
	for _, r := range f.Of(facts.CheckNodeReady) {
		if kind := r.Facts.Str(facts.Runtime); kind != "" {
			fix := askRuntime(kind)
			c.Fix = &fix
		}
	}
	if silent, heard := evidence.Witnesses(f); len(heard) == 0 { // the lease was read before the waiting
		c.Against = append(c.Against,
			diagnose.Clues(map[bool]int{true: diagnose.Proof, false: diagnose.Strong}[len(evidence.Askers(silent)) > 1],
				silent)...)
	}
	switch {
	case len(said) > 0:
		c.Says += "; the kubelet says: " + said[0].Saw
	case len(placed) > 0:
		c.Says += ": " + placed[0].Saw
	case len(logs) > 0:
		c.Says += ", by what the kubelet says: " + logs[0].Saw
	default:
		c.Says = "the kubelet of {node} renews its lease and starts no pods; its sync loop seems blocked by the container runtime, or it exits and is restarted again and again"
		c.For = slices.Concat(diagnose.Suggests(idle), diagnose.Shows(alive))
	}
	return []diagnose.Case{c}
}
