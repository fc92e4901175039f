package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

func runOf(node, word string, results ...probe.Result) Run {
	run := Run{Node: node, Verdict: &probe.Verdict{Word: word}}
	for _, r := range results {
		run.Add(probe.Event{Type: probe.EventResult, Node: node, Result: &r})
	}
	// A peer's answers are not compared.
	run.Add(probe.Event{Type: probe.EventResult, Node: "node-z",
		Result: &probe.Result{Check: "node-swap", Target: word, Status: probe.Fail}})
	return run
}

func result(check, target string, s probe.Status, saw string) probe.Result {
	return probe.Result{Check: check, Target: target, Status: s, Saw: saw}
}

// asked is an answer out of a pod's network, or out of the node's own.
func asked(pod string, s probe.Status) probe.Result {
	r := result("service-clusterip", "default/kubernetes", s, "asked")
	r.From = pod
	return r
}

// twoDays are one node on two days.
func twoDays() Difference {
	return Diff("good.ndjson", runOf("node-a", "healthy",
		result("bird-socket", "/run/calico/bird.ctl", probe.OK, "BIRD answers").With("pid", 7),
		result("bgp-session", "node-b 10.0.0.2", probe.OK, "Established").With("imported", 40).With("source", "10.0.0.1"),
		result("calico-pod", "kube-system/calico-node-aaaaa", probe.OK, "running"),
		result("node-clock", "", probe.Fail, "an hour late"),
		result("node-load", "", probe.OK, "idle").With("load1", 1.0).With("age_s", 1),
		result("typha-reach", "", probe.Skip, "no Typha"),
		result("cni-mtu", "", probe.OK, "1450"),
		asked("default/workload-a", probe.OK), asked("", probe.OK),
	), "bad.ndjson", runOf("node-a", "fault",
		result("bird-socket", "/run/calico/bird.ctl", probe.Fail, "nobody listens").With("pid", 9),
		result("bgp-session", "node-b 10.0.0.2", probe.OK, "Established").With("imported", 1).With("source", "10.0.0.66"),
		result("calico-pod", "kube-system/calico-node-bbbbb", probe.Warn, "restarted"),
		result("node-clock", "", probe.OK, "right"),
		result("node-load", "", probe.Info, "idle").With("load1", 1.5).With("age_s", 9000),
		result("typha-reach", "", probe.OK, "answers"),
		result("node-swap", "", probe.Fail, "swap is\x1b on"),
		asked("default/workload-b", probe.Fail), asked("", probe.Fail),
	))
}

func TestDiffGolden(t *testing.T) {
	for _, format := range []string{"table", "json"} {
		var out bytes.Buffer
		must.Do(t, WriteDiff(&out, format, twoDays()))
		file := filepath.Join("testdata", "diff."+format+".golden")
		if *update {
			must.Do(t, os.WriteFile(file, out.Bytes(), 0o644))
		}
		want := must.Get(os.ReadFile(file))(t)
		if out.String() != string(want) {
			t.Errorf("%s:\n%s\nwant:\n%s", format, out.String(), want)
		}
		if err := WriteDiff(broken{os.ErrClosed}, format, twoDays()); err == nil {
			t.Errorf("%s: a full disk is not said", format)
		}
	}
}

// TestDiffOfNodes wants each node's peers to stand for one another: the other node is
// one's peer, and pods have other names.
// TestDiffOfTargets wants a check with good answers in both runs, about other targets, named once.
func TestDiffOfTargets(t *testing.T) {
	var out bytes.Buffer
	good := func(check, target string) probe.Result { return result(check, target, probe.OK, "good") }
	d := Diff("a", runOf("node-a", "healthy", good("node-uplink", "eth0"), good("cni-mtu", "")),
		"b", runOf("node-a", "healthy", good("node-uplink", "eth1"), good("node-swap", "")))
	must.Do(t, WriteDiff(&out, "table", d))
	for _, want := range []string{"\ngood in both runs, about other targets: node-uplink\n", "\nanswered by B only, with a good result: node-swap\n",
		"\ngood in A, not answered by B: cni-mtu\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestDiffOfNodes(t *testing.T) {
	here := runOf("node-a", "healthy",
		result("bgp-session", "node-b 10.0.0.2", probe.OK, "Established"),
		result("pod-ping", "default/x 10.1.1.1", probe.OK, "5 of 5"), result("pod-ping", "default/y 10.1.1.2", probe.OK,
			"5 of 5"),
		result("kubelet-health", "healthz", probe.OK, "ok"),
		result("service-clusterip", "default/kubernetes 10.96.0.1", probe.OK, "takes connections").With("source", "10.0.0.1"),
	)
	there := runOf("node-b", "fault",
		result("bgp-session", "node-a 10.0.0.1", probe.Fail, "Connect"),
		result("pod-ping", "default/z 10.1.2.1", probe.OK, "5 of 5"), result("pod-ping", "default/w fd00::1", probe.Fail,
			"none"),
		result("kubelet-health", "healthz", probe.OK, "ok"),
		result("service-clusterip", "default/kubernetes 10.96.0.1", probe.OK, "takes connections").With("source", "10.0.0.2"),
	)
	d := Diff("node-a", here, "node-b", there)
	if len(d.Changes) != 2 || d.Same != 2 || !d.Worse() {
		t.Errorf("%+v", d)
	}
	for i, want := range []string{"node-a 10.0.0.1", "default/w fd00::1"} {
		if i < len(d.Changes) && (d.Changes[i].Kind != changeWorse || d.Changes[i].Target != want) {
			t.Errorf("%+v", d.Changes[i])
		}
	}
	back := Diff("node-b", there, "node-a", here)
	if back.Worse() || len(back.Changes) != 2 || back.Changes[0].Kind != changeBetter {
		t.Errorf("%+v", back)
	}
	if same := Diff("a", here, "b", here); len(same.Changes) != 0 || same.Same != 5 || same.Short() {
		t.Errorf("the same twice: %+v", same)
	}
}

// TestDiffOfNodesShort requires that a node is not short of answers because of a warning that only the other node has,
// or a target of its own. It is short if it lacks a check's answers completely.
func TestDiffOfNodesShort(t *testing.T) {
	t.Parallel()
	swap, ping := result("node-swap", "", probe.OK, "no swap"), result("pod-ping", "a pod", probe.OK, "5 of 5")
	warns := result("node-load", "", probe.Warn, "busy")
	there := runOf("node-b", "warnings", swap, ping, result("pod-ping", "another pod", probe.OK, "5 of 5"), warns)
	unknown := runOf("node-b", "incomplete", swap, ping)
	for name, c := range map[string]struct {
		there, here Run
		short       bool
	}{
		"a warning of the other":   {there, runOf("node-a", "healthy", swap, ping), false},
		"a check is not answered":  {there, runOf("node-a", "healthy", ping), true},
		"neither could ask all":    {unknown, runOf("node-a", "incomplete", swap, ping), false},
		"this one could not":       {there, runOf("node-a", "incomplete", swap, ping), true},
		"the same node, a warning": {runOf("node-a", "warnings", swap, warns), runOf("node-a", "healthy", swap), true},
	} {
		if d := Diff("there", c.there, "here", c.here); d.Short() != c.short || d.Worse() {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestDiffFrom requires the source pod beside the target, also in saved runs.
func TestDiffFrom(t *testing.T) {
	t.Parallel()
	from := func(s probe.Status) Run {
		r := result("pod-ping", "default/x 10.1.1.1", s, "seen")
		r.From = "default/web"
		return runOf("node-a", "fault", r)
	}
	for name, d := range map[string]Difference{
		"worse": Diff("a", from(probe.OK), "b", from(probe.Fail)),
		"gone":  Diff("a", from(probe.Fail), "b", runOf("node-a", "healthy")),
		"come":  Diff("a", runOf("node-a", "healthy"), "b", from(probe.Fail)),
	} {
		var out strings.Builder
		const want = "default/x 10.1.1.1 from default/web"
		if err := WriteDiff(&out, "table", d); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
}

// TestDiffShort requires that missing answers never count as healthy.
func TestDiffShort(t *testing.T) {
	swap, clock := result("node-swap", "", probe.OK, "no swap"), result("node-clock", "", probe.OK, "right")
	whole := runOf("node-a", "healthy", swap, clock)
	cut := runOf("node-a", "healthy", swap, clock)
	cut.Lacks = "it ends before its verdict"
	for name, c := range map[string]struct {
		b     Run
		short bool
	}{
		"the same":   {whole, false},
		"more":       {runOf("node-a", "healthy", swap, clock, result("node-load", "", probe.OK, "idle")), false},
		"one less":   {runOf("node-a", "healthy", swap), true},
		"cut":        {cut, true},
		"incomplete": {runOf("node-a", "incomplete", swap, clock), true},
	} {
		if d := Diff("a", whole, "b", c.b); d.Short() != c.short || d.Worse() {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestDiffOfFollowUps requires that one run's follow-up checks are neither worse results nor gaps in the other run,
// which did not run them.
func TestDiffOfFollowUps(t *testing.T) {
	bad := runOf("node-a", "fault", result("bgp-session", "node-b 10.0.0.2", probe.Fail, "Connect"),
		result("encap-proof", "node-b", probe.Fail, "VXLAN is lost"))
	bad.Events = append([]probe.Event{{Type: probe.EventStart, Node: "node-a",
		Start: &probe.Start{Checks: []string{"encap-proof"}, FollowUp: true}}}, bad.Events...)
	well := runOf("node-a", "healthy", result("bgp-session", "node-b 10.0.0.2", probe.OK, "Established"))
	healed := Diff("then", bad, "now", well)
	if healed.Worse() || healed.Short() || len(healed.Changes) != 2 || healed.Changes[1].Kind != changeFollowUp {
		t.Errorf("healed: %+v", healed)
	}
	broke := Diff("then", well, "now", bad)
	if len(broke.Changes) != 2 || broke.Changes[0].Check != "bgp-session" || broke.Changes[1].Kind != changeFollowUp {
		t.Errorf("broken: %+v", broke)
	}
	bad.Events[0].Start.FollowUp = false
	if d := Diff("then", bad, "now", well); !d.Short() {
		t.Errorf("what was asked from the beginning is missing: %+v", d)
	}
}
