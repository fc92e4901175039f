package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// rung is one step of the ladder.
type rung struct {
	name    string
	open    injector.Way
	patient bool // the second time, with all the time there is
}

// ladder is the way the user named, or all of them.
func (o *runOptions) ladder() ([]rung, error) {
	if o.via == wayLocal {
		m, err := here("/")
		if err != nil {
			return nil, err
		}
		step, err := o.local(m)
		return []rung{step}, err
	}
	config, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	client, err := injector.NewClient(config)
	if err != nil {
		return nil, err
	}
	all := []rung{
		{name: wayPod, open: o.podOrElsewhere(injector.Pod(client))},
		{name: wayEphemeral, open: injector.Ephemeral(client)},
		{name: wayExec, open: injector.Exec(client)},
	}
	if o.ssh != sshNone {
		all = append(all, rung{name: waySSH, open: injector.SSH()})
	}
	for _, s := range all {
		if s.name == o.via {
			return []rung{s}, nil
		}
	}
	return all, nil
}

// unlike says why no probe can run on a node, "" = nothing is known against it. Its kubelet
// would take up none, or never say so, and each way would wait for that in turn.
func unlike(node *corev1.Node) string {
	info, os := node.Status.NodeInfo, node.Labels[corev1.LabelOSStable]
	switch {
	case node.Labels["type"] == "virtual-kubelet", info.KubeletVersion != "" && info.KernelVersion == "":
		return fmt.Sprintf("node %s is virtual: behind its kubelet (%s) is no machine to look at", node.Name, info.KubeletVersion)
	case os == "windows", strings.EqualFold(info.OperatingSystem, "windows"):
		return fmt.Sprintf("node %s runs Windows, and the probe runs on Linux", node.Name)
	}
	return ""
}

// How long to wait for a probe to start unless the user says. A healthy node
// takes a second; one whose kubelet has not been heard of for 40 s, or has not heard of
// its runtime for 30 s, will hardly start anything, and somebody is waiting.
const (
	startUsual  = 40 * time.Second
	startSilent = 10 * time.Second
	// With other ways to go, less will do. A second of silence is usual; eight are not.
	startDoubted = 5 * time.Second
	idle         = 8 * time.Second
	// What there is to go into on such a node is asked for a word, at two doors at most:
	// a kubelet that serves them takes a fraction of a second.
	knock = 2 * time.Second
)

// tried is a way that came to nothing.
type tried struct {
	way    string
	reason facts.Reason
	waited bool   // nobody said no: the time was up
	early  bool   // and that was earlier than it had to be
	twice  bool   // it was not the first time
	mute   string // the image that ran and did not answer, "" = none did
}

func refusalOf(step rung, err error, took time.Duration, a attempt) tried {
	t := tried{way: step.name, twice: step.patient}
	if pe, ok := errors.AsType[*injector.PlacementError](err); ok {
		t.reason, t.waited = pe.Reason, pe.Waited
	}
	t.early = t.waited && a.idle > 0 && took < a.start
	return t
}

// attempt is how long a way is given to start a probe, or why it is not tried.
type attempt struct {
	start   time.Duration // 0 = what a carried probe takes
	idle    time.Duration // how long nothing at all may happen, 0 = as long
	skip    string
	because facts.Reason
}

// attemptOf decides about one way from what came of those before it: what stood in
// their way may stand in this one's too, and an ephemeral container that waits for
// something can never be taken out of its pod again. silent: the kubelet's lease has
// run out, or its runtime is down.
func attemptOf(step rung, others bool, before []tried, silent bool) attempt {
	var a attempt
	switch {
	case step.patient && step.name == wayExec:
		return attempt{start: startSilent}
	case step.patient:
		return attempt{start: startUsual}
	case step.name == waySSH:
		return a // asks neither the API nor a kubelet
	case step.name == wayExec && silent && others:
		a.start = knock
	case step.name == wayExec:
	case silent && others:
		a.start = startDoubted
	case silent:
		a.start = startSilent
	default:
		a.start = startUsual
		if others {
			a.idle = idle
		}
	}
	for _, t := range before {
		switch {
		case t.reason == facts.ReasonAPI:
			a.skip = "it leads through the API server too, which fails"
		case t.reason == facts.ReasonKubelet && t.waited && step.name == wayExec:
			a.start = knock // one that no longer hears of pods may still let us into those it has
			continue
		case t.reason == facts.ReasonKubelet && t.waited:
			a.skip = "it takes the same kubelet, which has taken nothing up"
		case t.reason == facts.ReasonRuntime && t.waited:
			a.skip = "it takes the same container runtime, which has started nothing"
		case t.reason == facts.ReasonAttach:
			a.skip = "it leads through the kubelet's port 10250 too"
		case t.reason == facts.ReasonImage && step.name == wayEphemeral:
			a.skip = "it takes the same image"
		case t.mute != "" && t.way == wayPod && step.name == wayEphemeral:
			a.skip = fmt.Sprintf("image %s ran in a pod and did not answer as a probe; an ephemeral container could not be removed again", t.mute)
		default:
			continue
		}
		a.because = t.reason
		break
	}
	return a
}

// onceMore is the way to take where none has worked and the first was given up early: a
// node that is only slow gets its time after all. What runs there is knocked at before that,
// which takes the same kubelet and runtime, and little of either: where it hangs for so
// long, they do, and nothing starts.
func onceMore(steps []rung, before []tried) (step rung, worth bool) {
	if len(before) == 0 || !before[0].early {
		return rung{}, false
	}
	last := tried{way: wayExec, waited: true} // it may not have been tried, as it takes the same runtime
	for _, t := range before {
		if t.way == wayExec {
			last = t
		}
	}
	step = steps[0]
	if i := slices.IndexFunc(steps, func(s rung) bool { return s.name == wayExec }); i >= 0 && last.waited {
		step = steps[i]
	}
	step.patient = true
	return step, step.name != last.way || !last.twice
}

// notTried is the result of a way that is not worth trying.
func notTried(way string, a attempt) probe.Event {
	r := probe.Found(probe.Skip, "not tried: %s", a.skip).On(way)
	if a.because != "" {
		r = r.With(probe.FactReason, string(a.because))
	}
	r.Check = probe.CheckPlaced
	return probe.Event{Type: probe.EventResult, Result: &r, Way: way}
}
