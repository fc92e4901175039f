package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/report"
)

// TestAttempts walks the ladder past every kind of obstacle: "-" is a way not tried,
// a number its seconds, own
// what it takes by itself.
func TestAttempts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		silent bool
		pod    *tried
		want   string // ephemeral, exec, ssh
	}{
		"no right":             {pod: &tried{reason: facts.ReasonRBAC}, want: "40 own own"},
		"policy":               {pod: &tried{reason: facts.ReasonAdmission}, want: "40 own own"},
		"policy, silent":       {pod: &tried{reason: facts.ReasonAdmission}, silent: true, want: "5 2 own"},
		"quota":                {pod: &tried{reason: facts.ReasonQuota}, want: "40 own own"},
		"no image":             {pod: &tried{reason: facts.ReasonImage}, want: "- own own"},
		"kubelet silent":       {pod: &tried{reason: facts.ReasonKubelet, waited: true}, silent: true, want: "- 2 own"},
		"kubelet idle":         {pod: &tried{reason: facts.ReasonKubelet, waited: true}, want: "- 2 own"},
		"kubelet says no":      {pod: &tried{reason: facts.ReasonKubelet}, want: "40 own own"},
		"runtime hangs":        {pod: &tried{reason: facts.ReasonRuntime, waited: true}, want: "- - own"},
		"runtime says no":      {pod: &tried{reason: facts.ReasonRuntime}, want: "40 own own"},
		"10250 not reached":    {pod: &tried{reason: facts.ReasonAttach}, want: "- - own"},
		"broke off":            {pod: &tried{}, want: "40 own own"},
		"ran and said nothing": {pod: &tried{way: wayPod, mute: "workload:1"}, want: "- own own"},
		"API fails":            {pod: &tried{reason: facts.ReasonAPI}, want: "- - own"},
		"namespace is missing": {pod: &tried{reason: facts.ReasonNamespace}, want: "40 own own"},
	} {
		var got []string
		for _, way := range []string{wayEphemeral, wayExec, waySSH} {
			a := attemptOf(rung{name: way}, true, []tried{*c.pod}, c.silent)
			text := strings.TrimSuffix(a.start.String(), "s")
			switch {
			case a.skip == "" && a.start == 0:
				text = "own"
			case a.skip != "":
				text = "-"
				if a.because != c.pod.reason {
					t.Errorf("%s: %s is skipped because of %q", name, way, a.because)
				}
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
	for name, c := range map[string]struct {
		step           rung
		others, silent bool
		want           attempt
	}{
		"first of many":        {rung{name: wayPod}, true, false, attempt{start: startUsual, idle: idle}},
		"the only one":         {rung{name: wayPod}, false, false, attempt{start: startUsual}},
		"first, silent":        {rung{name: wayPod}, true, true, attempt{start: startDoubted}},
		"the only one, silent": {rung{name: wayPod}, false, true, attempt{start: startSilent}},
		"once more, with time": {rung{name: wayPod, patient: true}, true, false, attempt{start: startUsual}},
		"a longer knock":       {rung{name: wayExec, patient: true}, true, false, attempt{start: startSilent}},
	} {
		if got := attemptOf(c.step, c.others, nil, c.silent); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	slow := &injector.PlacementError{Reason: facts.ReasonRuntime, Waited: true}
	if got := refusalOf(rung{name: wayPod}, slow, 9*time.Second, attempt{start: startUsual, idle: idle}); !got.early || !got.waited {
		t.Errorf("%+v", got)
	}
	if got := refusalOf(rung{name: wayPod}, slow, 40*time.Second, attempt{start: startUsual, idle: idle}); got.early {
		t.Errorf("%+v", got)
	}
}

// TestPatientInTheEnd climbs past a pod that was given up early and a line by ssh on
// which no word comes, and wants the pod tried once more, under another name and with
// all the time there is. The ways are stand-ins, the sessions are real.
func TestPatientInTheEnd(t *testing.T) {
	t.Parallel()
	var tries []injector.Options
	local := injector.Local((&probe.Runner{Host: &probe.Host{}}).Serve)
	steps := []rung{
		{name: wayPod, open: func(ctx context.Context, opts injector.Options) (*injector.Session, error) {
			if tries = append(tries, opts); len(tries) == 1 {
				return nil, &injector.PlacementError{Reason: facts.ReasonKubelet, Waited: true, Text: "not taken up"}
			}
			return local(ctx, opts)
		}},
		{name: waySSH, open: func(ctx context.Context, opts injector.Options) (*injector.Session, error) {
			return silentSession(ctx, opts)
		}},
	}
	var got seenEvents
	o := &runOptions{app: &app{elsewhere: new(atomic.Bool), IOStreams: genericiooptions.IOStreams{ErrOut: &bytes.Buffer{}}, flags: genericclioptions.NewConfigFlags(true)}, id: "7f3a09c1", sink: &got, tally: report.NewTally()}
	talk := func(way string, session *injector.Session, took time.Duration, said []probe.Event, last bool) (*probe.Event, error) {
		return o.converse(t.Context(), way, session, nil, took, said, last)
	}
	if err := o.climb(t.Context(), steps, nil, func() bool { return true }, talk); err != nil {
		t.Fatal(err)
	}
	if len(tries) != 2 || tries[0].Run != o.id || tries[1].Run == o.id || tries[0].Idle == 0 || tries[1].Idle != 0 || tries[1].Start != startUsual {
		t.Errorf("%+v", tries)
	}
	var said []string
	for _, ev := range got {
		if ev.Result != nil {
			said = append(said, ev.Way+" "+ev.Result.Check+" "+string(ev.Result.Status))
		}
	}
	if text := strings.Join(said, ", "); text != "ssh probe-answered info, pod probe-placed ok" {
		t.Errorf("%s: %+v", text, got)
	}
}

// silentSession is one with a program that takes what it is asked and ends without a word.
func silentSession(ctx context.Context, opts injector.Options) (*injector.Session, error) {
	return injector.Local(func(_ context.Context, in io.Reader, _ io.Writer) error {
		_, err := bufio.NewReader(in).ReadString('\n')
		return err
	})(ctx, opts)
}

// TestMuteImageStaysOut wants an image that ran in a pod and said nothing kept out of
// calico-node, from which nothing could take it again. The ways are stand-ins, the sessions
// are real.
func TestMuteImageStaysOut(t *testing.T) {
	t.Parallel()
	var tried []string
	mute := func(name string) rung {
		return rung{name: name, open: func(ctx context.Context, opts injector.Options) (*injector.Session, error) {
			tried = append(tried, name)
			return silentSession(ctx, opts)
		}}
	}
	var got seenEvents
	o := &runOptions{app: &app{elsewhere: new(atomic.Bool), IOStreams: genericiooptions.IOStreams{ErrOut: &bytes.Buffer{}}, flags: genericclioptions.NewConfigFlags(true)}, image: "workload:1", id: "7f3a09c1", sink: &got, tally: report.NewTally()}
	talk := func(way string, session *injector.Session, took time.Duration, said []probe.Event, last bool) (*probe.Event, error) {
		return o.converse(t.Context(), way, session, nil, took, said, last)
	}
	if err := o.climb(t.Context(), []rung{mute(wayPod), mute(wayEphemeral), mute(wayExec)}, nil, func() bool { return true }, talk); err != nil {
		t.Fatal(err)
	}
	if strings.Join(tried, " ") != "pod exec" {
		t.Errorf("tried: %v", tried)
	}
	skipped := slices.ContainsFunc(got, func(ev probe.Event) bool {
		return ev.Way == wayEphemeral && ev.Result.Status == probe.Skip &&
			ev.Result.Saw == "not tried: image workload:1 ran in a pod and did not answer as a probe; an ephemeral container could not be removed again"
	})
	if !skipped {
		t.Errorf("%+v", got)
	}
}

// TestWaitedAsAsked wants no way tried twice for which the user said how long to wait. The
// ways are stand-ins.
func TestWaitedAsAsked(t *testing.T) {
	t.Parallel()
	var tried []string
	way := func(name string) rung {
		return rung{name: name, open: func(_ context.Context, opts injector.Options) (*injector.Session, error) {
			tried = append(tried, fmt.Sprintf("%s %v %v", name, opts.Start, opts.Idle))
			return nil, &injector.PlacementError{Reason: facts.ReasonKubelet, Waited: true, Text: "not taken up"}
		}}
	}
	o := &runOptions{app: &app{elsewhere: new(atomic.Bool), IOStreams: genericiooptions.IOStreams{ErrOut: &bytes.Buffer{}}, flags: genericclioptions.NewConfigFlags(true)}, sink: &seenEvents{}, tally: report.NewTally(), startTimeout: 200 * time.Millisecond}
	if err := o.climb(t.Context(), []rung{way(wayPod), way(wayExec)}, nil, func() bool { return true }, nil); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(tried, ", "); got != "pod 200ms 0s, exec 200ms 0s" {
		t.Error(got)
	}
}

// TestOnceMore wants a node that is only slow given its time, and one that hangs not waited
// for: what tells them apart is whether what runs there can be entered.
func TestOnceMore(t *testing.T) {
	t.Parallel()
	pod := tried{way: wayPod, waited: true, early: true}
	ladder := []rung{{name: wayPod}, {name: wayEphemeral}, {name: wayExec}, {name: waySSH}}
	for name, c := range map[string]struct {
		steps  []rung
		before []tried
		want   string
	}{
		"nothing tried":               {ladder, nil, ""},
		"not early":                   {ladder, []tried{{way: wayPod, waited: true}}, ""},
		"exec left out":               {ladder, []tried{pod, {way: waySSH}}, wayExec},
		"exec hangs":                  {ladder, []tried{pod, {way: wayExec, waited: true}, {way: waySSH}}, wayExec},
		"exec hangs for longer":       {ladder, []tried{pod, {way: wayExec, waited: true}, {way: waySSH}, {way: wayExec, waited: true, twice: true}}, ""},
		"exec answers at last":        {ladder, []tried{pod, {way: wayExec, waited: true}, {way: waySSH}, {way: wayExec, twice: true}}, wayPod},
		"exec answers that it cannot": {ladder, []tried{pod, {way: wayExec}, {way: waySSH}}, wayPod},
		"no exec":                     {ladder[:1], []tried{pod}, wayPod},
	} {
		if step, worth := onceMore(c.steps, c.before); worth != (c.want != "") || worth && (step.name != c.want || !step.patient) {
			t.Errorf("%s: %+v, %v", name, step, worth)
		}
	}
}

// TestOnceWhereTheRuntimeIsDown wants a node whose own kubelet says that its runtime does
// not answer given up soon, and no way onto it tried twice. The ways are stand-ins.
func TestOnceWhereTheRuntimeIsDown(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"container runtime is down": "pod 5s, ssh 0s",
		"kubelet is posting that":   "pod 40s, ssh 0s, pod 40s",
	} {
		var tries []string
		gaveUp := func(way string) injector.Way {
			return func(_ context.Context, opts injector.Options) (*injector.Session, error) {
				tries = append(tries, fmt.Sprintf("%s %v", way, opts.Start))
				return nil, &injector.PlacementError{Reason: facts.ReasonRuntime, Waited: true, Text: "not started"}
			}
		}
		snap := &cluster.Snapshot{Node: &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: message},
		}}}}
		o := &runOptions{app: &app{elsewhere: new(atomic.Bool), IOStreams: genericiooptions.IOStreams{ErrOut: &bytes.Buffer{}}, flags: genericclioptions.NewConfigFlags(true)}, sink: &seenEvents{}, tally: report.NewTally()}
		steps := []rung{{name: wayPod, open: gaveUp(wayPod)}, {name: waySSH, open: gaveUp(waySSH)}}
		if err := o.climb(t.Context(), steps, snap, func() bool { return true }, nil); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(tries, ", "); got != want {
			t.Errorf("%s: %s, want %s", message, got, want)
		}
	}
}

// TestNodesWithoutLinux wants a node on which no probe of ours can run told at once, no way
// onto it tried, and any other node not taken for one.
func TestNodesWithoutLinux(t *testing.T) {
	t.Parallel()
	linux := corev1.NodeSystemInfo{OperatingSystem: "linux", KubeletVersion: "v1.36.0", KernelVersion: "6.1.0"}
	for name, c := range map[string]struct {
		labels map[string]string
		info   corev1.NodeSystemInfo
		says   string
	}{
		"linux":                  {map[string]string{corev1.LabelOSStable: "linux"}, linux, ""},
		"never heard of":         {nil, corev1.NodeSystemInfo{}, ""},
		"windows by its label":   {map[string]string{corev1.LabelOSStable: "windows"}, linux, "runs Windows"},
		"windows by its kubelet": {nil, corev1.NodeSystemInfo{OperatingSystem: "windows", KubeletVersion: "v1.36.0", KernelVersion: "10.0"}, "runs Windows"},
		"virtual by its label":   {map[string]string{"type": "virtual-kubelet"}, linux, "is virtual"},
		"without a kernel":       {nil, corev1.NodeSystemInfo{OperatingSystem: "Linux", KubeletVersion: "v1.33-vk"}, "is virtual"},
	} {
		tries := 0
		step := rung{name: wayPod, open: func(context.Context, injector.Options) (*injector.Session, error) {
			tries++
			return nil, &injector.PlacementError{Reason: facts.ReasonRBAC, Text: "no right"}
		}}
		snap := &cluster.Snapshot{Node: &corev1.Node{Status: corev1.NodeStatus{NodeInfo: c.info}}}
		snap.Node.Name, snap.Node.Labels = "n1", c.labels
		var got seenEvents
		o := &runOptions{app: &app{elsewhere: new(atomic.Bool), IOStreams: genericiooptions.IOStreams{ErrOut: &bytes.Buffer{}}, flags: genericclioptions.NewConfigFlags(true)}, sink: &got, tally: report.NewTally()}
		if err := o.climb(t.Context(), []rung{step}, snap, func() bool { return true }, nil); err != nil {
			t.Fatal(err)
		}
		r := got[len(got)-1].Result
		if told := tries == 0; told != (c.says != "") || !strings.Contains(r.Saw, c.says) || told && r.Status != probe.Unknown {
			t.Errorf("%s: %d tries, %s %s", name, tries, r.Status, r.Saw)
		}
		step.name = wayLocal // whoever is there asks what is there
		if err := o.climb(t.Context(), []rung{step}, snap, func() bool { return true }, nil); err != nil || tries == 0 {
			t.Errorf("%s: local was not tried: %v", name, err)
		}
	}
}
