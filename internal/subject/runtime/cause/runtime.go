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
	"github.com/calico-probe/calico-probe/internal/subject/service"
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
var containerdHangs = &diagnose.Rule{
	ID: "containerd-hangs", Layer: diagnose.LayerRuntime, Title: "containerd does not respond",
	Doc: `containerd takes connections and answers nothing: it is stopped, deadlocked, or waits for a disk. What runs goes on running; nothing starts or ends. The kubelet goes on renewing its lease, so the node may stay Ready for minutes, until "container runtime is down" or "PLEG is not healthy"; pods stay in ContainerCreating or Terminating, an init container that has ended is still called Running.
Told from a dead containerd (its socket refuses), from one frozen shim (version answers, the list of tasks does not) and from docker that has lost its containerd (docker's own ping answers). A node too busy to answer within two seconds looks alike: node-load tells.`,
	Fix: probe.Fix{
		Says: "Record what containerd waits for, then restart it.",
		Manifest: []string{
			"ssh {node} ps -o pid,stat,wchan:32,etime -C containerd  # T: stopped ('sudo kill -CONT PID'); D: waits for a disk",
			"ssh {node} sudo pkill -USR1 -x containerd  # it writes to its log what its threads wait for",
			"ssh {node} sudo systemctl restart {containerd}",
		},
		Radius: "this node only; containers go on running while containerd restarts, for their shims hold them; nothing starts or ends meanwhile{together}",
	},
	RuledOut: []string{host.NodeDisk.ID}, Explains: append([]string{"shim-hangs"}, stale...),
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}

// containerdDead is a containerd that ended.
var containerdDead = &diagnose.Rule{
	ID: "containerd-dead", Layer: diagnose.LayerRuntime, Symptom: true, Title: "containerd is not running",
	Doc: `Its socket is left and nobody listens, or there is no socket at all. Containers go on running, held by their shims, and nothing starts or ends. The kubelet calls its runtime down after 30 s.
Told from a containerd that hangs by its socket, which refuses connections. A containerd that is just restarting looks the same for a second: run this again.`,
	Fix: probe.Fix{
		Says: "Start containerd. If it exits again, its journal ends with the reason: its configuration, its disk, or a plugin.",
		Manifest: []string{"ssh {node} sudo journalctl -u {containerd} -n 50 --no-pager",
			"ssh {node} sudo systemctl restart {containerd}"},
		Radius: "this node only; running containers are found again and stay{together}",
	},
	RuledOut: []string{host.NodeDisk.ID}, Explains: stale,
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}

// containerdWithoutCRI is a containerd that is well and of no use to the kubelet.
var containerdWithoutCRI = &diagnose.Rule{
	ID: "containerd-without-cri", Layer: diagnose.LayerRuntime, Title: "containerd runs without its CRI plugin",
	Doc: `containerd goes on when one of its plugins does not load, and answers its version and its health as if all were well. Without the CRI plugin the kubelet gets "unknown service runtime.v1.RuntimeService" and calls its runtime down. The package of docker disables the plugin in /etc/containerd/config.toml (disabled_plugins = ["cri"]); or it failed at containerd's start, as when the machine has no inotify instances left ("too many open files"), which its journal says.
Told from a containerd that hangs or is dead by all its other answers.`,
	Fix: probe.Fix{
		Says: "Enable the CRI plugin: remove \"cri\" from disabled_plugins, or correct the error that its journal shows for it. Then restart containerd.",
		Manifest: []string{
			"ssh {node} sudo ctr plugins ls | grep cri; ssh {node} grep disabled_plugins /etc/containerd/config.toml",
			`ssh {node} "sudo journalctl -u {containerd} | grep -i 'failed to load plugin' | tail -3"  # too many open files: raise fs.inotify.max_user_instances`,
			"ssh {node} sudo systemctl restart {containerd}",
		},
		Radius: "this node only; running containers are found again and stay{together}",
	},
	Explains: stale,
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}

// dockerLostContainerd is incident 001.
var dockerLostContainerd = &diagnose.Rule{
	ID: "docker-lost-containerd", Layer: diagnose.LayerRuntime, Title: "dockerd runs, but its containerd does not respond",
	Doc: `dockerd answers its own ping, and every question for which it has to ask containerd hangs. Its picture of containers is old: one that has ended is "Running" for as long as this lasts, and the kubelet believes it. In the field an init container was Running for an hour without a process, the node went NotReady and back, and kube-proxy, IPv6 and docker were suspected; restarting containerd cured it.
Told from a dockerd that hangs itself by the ping; from an init container that really hangs by its missing process (runtime-ghosts, init-stall).`,
	Fix: probe.Fix{
		Says: "Restart containerd, and docker only if it does not find it again.",
		Manifest: []string{
			"ssh {node} ps -o pid,stat,wchan:32,etime -C containerd,dockerd",
			"ssh {node} sudo systemctl restart {containerd}",
			"ssh {node} sudo docker info --format ok  # if this still hangs: ssh {node} sudo systemctl restart docker",
		},
		Radius: "this node only; containers outlive containerd. Restarting Docker stops them all unless live-restore is set ('docker info' says so): drain the node first then",
	},
	Wants: []string{runtime.ContainerdHealth.ID}, RuledOut: []string{service.KubeProxyHealth.ID},
	Explains: append([]string{"containerd-hangs", "containerd-dead", "runtime-hangs", "shim-hangs"}, stale...),
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}

// dockerHangs is dockerd itself.
var dockerHangs = &diagnose.Rule{
	ID: "docker-hangs", Layer: diagnose.LayerRuntime, Title: "dockerd does not respond",
	Doc: `Not even its ping, which dockerd answers without asking anybody: it is frozen, or dead with its socket left behind. Told from a dockerd that has lost its containerd by that ping.`,
	Fix: probe.Fix{
		Says:     "See what it waits for or why it ended, then restart it.",
		Manifest: []string{"ssh {node} sudo journalctl -u docker -n 50 --no-pager"},
		OnlyIf: []probe.Conditional{
			{If: "live-restore is set, or the node is drained: it stops all containers else",
				Manifest: []string{"ssh {node} sudo systemctl restart docker"}},
		},
		Radius: "this node only; without live-restore ('docker info' says so) a restart of docker stops all containers of the node: drain it first",
	},
	RuledOut: []string{runtime.ContainerdHealth.ID}, Explains: append([]string{"runtime-hangs"}, stale...),
	Match: func(f diagnose.Findings) []diagnose.Case {
		ping := slices.DeleteFunc(f.Failed(runtime.DockerHealth.ID),
			func(r diagnose.Finding) bool { return r.Target == "info" })
		if len(ping) == 0 {
			return nil
		}
		return []diagnose.Case{{
			Says: "dockerd on {node} does not answer: " + ping[0].Saw,
			For: slices.Concat(diagnose.Proves(diagnose.Keep(ping, diagnose.Because(hangs...))),
				diagnose.Suggests(diagnose.Keep(ping, diagnose.Because("refused", "missing"))), diagnose.Clues(diagnose.Hint,
					evidence.KubeletSaid(f, facts.UnreadyRuntime, facts.UnreadyPLEG))),
			Covers: runtimeGone,
		}}
	},
}

// runtimeHangs is any other runtime: CRI-O, or cri-dockerd between kubelet and docker.
var runtimeHangs = &diagnose.Rule{
	ID: "runtime-hangs", Layer: diagnose.LayerRuntime, Title: "the container runtime does not respond on its CRI socket",
	Doc: `The socket on which the kubelet asks its runtime (CRI-O, cri-dockerd, dockershim) takes connections and answers nothing, or refuses them. Nothing starts or ends on the node; what runs goes on. containerd and docker have causes of their own, which say more.`,
	Fix: probe.Fix{
		Says:     "Restart the runtime. Save the end of its log first: it shows what the runtime waits for.",
		Manifest: []string{"ssh {node} sudo journalctl -u crio -u cri-docker -n 50 --no-pager"},
		OnlyIf: []probe.Conditional{
			{If: "it is CRI-O", Manifest: []string{"ssh {node} sudo systemctl restart crio"}},
			{If: "it is cri-docker", Manifest: []string{"ssh {node} sudo systemctl restart cri-docker"}},
		},
		Radius: "this node only; containers go on running",
	},
	Explains: stale,
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}

// shimHangs is one pod that holds up a whole node.
var shimHangs = &diagnose.Rule{
	ID: "shim-hangs", Layer: diagnose.LayerRuntime, Title: "a frozen containerd shim blocks the runtime",
	Doc: `Each pod has a shim, a small process between containerd and its containers. containerd asks the shims in turn, so one that is stopped or waits for a disk holds up every list of containers, while containerd's version and health answer at once. The kubelet sees "PLEG is not healthy", and a container that ends under that shim is called Running for ever.
Told from a frozen containerd by what of it still answers. Where no shim is stopped or waits for a disk as it is read, a list that is late once is little evidence: a node that was busy for a moment does that too.`,
	Fix: probe.Fix{
		Says: "Look at what the shim waits for; continue it, or end it with its pod.",
		Manifest: []string{
			"ssh {node} sudo crictl pods | grep ID  # the ID named above: whose pod it is",
		},
		OnlyIf: []probe.Conditional{
			{If: "the shim's state is T", Manifest: []string{"ssh {node} sudo kill -CONT PID"}},
			{If: "it does not recover: this ends that pod's containers, which the kubelet starts again",
				Manifest: []string{"ssh {node} sudo kill -KILL PID"}},
		},
		Radius: "the one pod behind the shim; the rest of the node begins to move again at once",
	},
	Explains: stale,
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
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
var containerGhosts = &diagnose.Rule{
	ID: "container-ghosts", Layer: diagnose.LayerRuntime, Title: "a container is reported running but has no process",
	Doc: `The runtime has missed the end of a container and calls it running; the kubelet believes that and neither starts it again nor goes on to the next one. An init container in this state keeps calico-node in Init:0/3 for ever, with nothing in its log. In the field that was taken for a hanging upgrade-ipam.
Told from an init container that hangs by its process: that one is there, and init-stall shows what it waits for. Where docker has lost its containerd, or a shim is frozen, that is the cause and this follows from it.`,
	Fix: probe.Fix{
		Says: "Restart the runtime, which looks at its containers anew; then the kubelet goes on.",
		Manifest: []string{
			"ssh {node} sudo crictl ps -a | head -30  # Running, and 'sudo crictl inspect ID' names a process that is not there",
			"ssh {node} sudo systemctl restart {runtime}",
		},
		Radius: "this node only; containers that live stay alive, with docker only where live-restore is set{together}",
	},
	Explains: []string{"upgrade-ipam-stuck", "install-cni-fails"},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
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
var runtimeStuck = &diagnose.Rule{
	ID: "runtime-stuck", Layer: diagnose.LayerRuntime, Symptom: true, Title: "the container runtime cannot start containers",
	Doc: `The kubelet is alive: it renews its lease. No container comes of the probe's pod, or the kubelet does not even take it up, because its loop waits for the runtime. The runtime hangs, is dead, or refuses; which, and whether it is docker or containerd, can only be seen on the node, where 'calico-probe run --via local --checks runtime' or the way ssh asks its sockets; --via kubelet has the kubelet's own lines about it. Containers that are shown as Running may have ended long ago.
Told from a dead kubelet by the lease, which is only sure once that is older than its 40 s. A kubelet that ends a moment after each start renews its lease each time and starts no pods either, so that alone is little evidence. Told from a missing image and from policy by what the API says of the pod.`,
	Fix:   askRuntime(""),
	Wants: []string{runtime.CRIHealth.ID}, RuledOut: []string{facts.CheckNodeLease}, Explains: []string{"kubelet-silent"},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}
