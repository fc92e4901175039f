package runbook_test

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/pkg/labels"
	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/nightfile"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/suite"
	suiteapi "github.com/calico-probe/calico-probe/internal/subject/suite/api"
	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/must"
)

// known is what runbooks may refer to.
func known() runbook.Known {
	suite := append(suiteapi.Checks(nil), suite.Node()...)
	k := runbook.Known{
		Causes: cause.All().IDs(), Advice: cause.All().Advice(),
		Selects: func(checks, skip []string, profile string) ([]string, error) {
			picked, err := probe.Select(suite, checks, skip)
			if len(checks) == 0 {
				picked = probe.Within(picked, probe.Profile(cmp.Or(profile, string(probe.Standard))))
			}
			var ids []string
			for _, c := range picked {
				ids = append(ids, c.ID)
			}
			return ids, err
		},
		Together: func(runbook.Fleet) ([]string, error) { return nil, nil },
		Methods:  []string{"auto"},
	}
	for _, c := range suite {
		k.Checks = append(k.Checks, c.ID)
	}
	for _, p := range probe.Profiles() {
		k.Profiles = append(k.Profiles, string(p))
	}
	return k
}

// general is the runbook for symptoms without their own.
const general = "node-trouble"

// builtin returns the built-in runbooks by name.
func builtin(t *testing.T) map[string]*runbook.Runbook {
	t.Helper()
	out := map[string]*runbook.Runbook{}
	for _, it := range must.Get(runbook.Library(known()))(t) {
		if it.Err != nil {
			t.Fatal(it.Err)
		}
		for _, odd := range it.Runbook.Warnings() {
			t.Error(odd)
		}
		if want := strings.TrimSuffix(filepath.Base(it.File), ".yaml"); it.Name != want {
			t.Errorf("%s calls itself %s", it.File, it.Name)
		}
		out[it.Name] = it.Runbook
	}
	return out
}

// These runbooks are about future events, and have their own steps.
const (
	beforeReboot  = "before-reboot"
	beforeUpgrade = "before-upgrade-3-33"
)

// manyNodes examines all nodes before one of them.
const manyNodes = "many-nodes"

// TestSymptoms checks the runbooks that causes name, and requires a runbook for the symptom of every sandbox fault.
func TestSymptoms(t *testing.T) {
	t.Parallel()
	all, of := builtin(t), map[string][]string{}
	for _, rule := range cause.All().Rules {
		of[rule.ID] = rule.Runbooks
		for _, name := range rule.Runbooks {
			if all[name] == nil || name == general || name == manyNodes {
				t.Errorf("%s names %s, which is no runbook for a symptom", rule.ID, name)
			}
		}
	}
	table := must.Get(os.ReadFile("../../docs/faults.md"))(t)
	rows := regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\| ([^|]*) \\| `([a-z0-9-]+)`").FindAllStringSubmatch(string(table), -1)
	if len(rows) < 40 {
		t.Fatalf("%d faults in docs/faults.md", len(rows))
	}
	for _, row := range rows {
		if len(of[row[3]]) == 0 {
			t.Errorf("no runbook for a symptom is about %s, the cause of %s", row[3], row[1])
		}
	}
}

// night returns a recorded run, as if it had just ended.
func night(t *testing.T, file string) report.Run {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	var run report.Run
	f := diagnose.Findings{}
	for _, section := range txtar.Parse(text).Files {
		if section.Name != "stream" {
			continue
		}
		d := probe.NewDecoder(bytes.NewReader(section.Data))
		for {
			ev, err := d.Next()
			if err != nil {
				break
			}
			if ev.Node == "" {
				ev.Node = "node-a"
			}
			f.Add(ev)
			run.Add(ev)
		}
	}
	if len(run.Events) == 0 {
		t.Fatalf("%s has no stream", file)
	}
	run.Node = f.Node
	tally := report.NewTally()
	tally.Add(probe.Event{Type: probe.EventStart})
	for _, ev := range run.Events {
		if ev.Result != nil && ev.Node == run.Node {
			tally.Add(ev)
		}
	}
	tally.Add(probe.Event{Type: probe.EventEnd})
	run.Causes = diagnose.Explain(f, cause.All()).Causes
	for _, c := range run.Causes {
		tally.Add(probe.Event{Type: probe.EventCause, Cause: &c})
	}
	v := tally.Verdict(false)
	run.Verdict = &v
	return run
}

// played runs a runbook unattended, with these results of its runs; the last result repeats.
func played(
	t *testing.T, b *runbook.Runbook, answers map[string]string, nights ...report.Run,
) (branch string, record *runbook.Record) {
	t.Helper()
	silent := func(string) {}
	e := runbook.Engine{
		Runbook: b, Answers: answers,
		Journal: runbook.NewJournal(runbook.Header{
			Runbook: b.Metadata.Name, Node: nights[0].Node, Params: map[string]string{},
		}),
		World: runbook.World{
			Run: func(context.Context, string, runbook.Run) (report.Run, error) {
				tonight := nights[0]
				nights = nights[min(1, len(nights)-1):]
				return tonight, nil
			},
			Agree: func(context.Context, runbook.Run, []string) error { return nil },
			Fleet: func(context.Context, runbook.Fleet) (report.Fleet, error) {
				return silentZone(4, nights[0].Node), nil // it is alone
			},
			Ask:      func(context.Context, runbook.Question) (string, error) { return "", runbook.ErrNoPerson },
			Confirm:  func(context.Context, runbook.Proposal) (bool, error) { return false, runbook.ErrNoPerson },
			Show:     func(runbook.Entry) error { return nil },
			Progress: silent, Say: silent, Waits: silent,
		},
	}
	record = must.Get(e.Do(t.Context()))(t)
	fits(t, record)
	for _, s := range record.Steps {
		if s.Name == "cause" && s.Choice != nil {
			branch = s.Choice.Branch
		}
		if strings.Contains(s.Text, "(nothing:") {
			t.Errorf("%s, step %s: a text has no value: %s", b.Metadata.Name, s.Step, s.Text)
		}
	}
	if strings.Contains(record.Outcome.Says+record.Outcome.Next, "(nothing:") {
		t.Errorf("%s: the outcome has no value: %+v", b.Metadata.Name, *record.Outcome)
	}
	return branch, record
}

// TestNights runs every built-in runbook on every recorded night. None concludes more than the run: neither a better
// verdict, nor fewer causes.
func TestNights(t *testing.T) {
	t.Parallel()
	all := builtin(t)
	files := nightfile.All()
	if len(files) == 0 {
		t.Fatal("no recorded nights")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			tonight := night(t, file)
			for name, b := range all {
				if name != general && name != "pods-no-network" { // the other ones have the same steps, or are no such runbooks
					continue
				}
				if len(tonight.Causes) == 0 {
					if name == general {
						unnamed(t, b, tonight)
					}
					continue
				}
				if first := tonight.Causes[0]; name != general && len(tonight.Causes) == 1 && first.Confidence == probe.High {
					continue // the same as in the general one, but for a note
				}
				_, record := played(t, b, nil, tonight)
				o := record.Outcome
				if o.Verdict != tonight.Verdict.Word {
					t.Errorf("%s comes to %s, and the run to %s", name, o.Verdict, tonight.Verdict.Word)
				}
				for _, c := range tonight.Causes {
					if !strings.Contains(o.Says, c.Says) || !strings.Contains(o.Next, c.Fix.Says) ||
						strings.Contains(o.Says, "only suspected: "+c.Says) != (c.Confidence == probe.Low) {
						t.Errorf("%s comes to %+v, which is not %s (%s)", name, *o, c.Says, c.Confidence)
					}
				}
				for _, s := range record.Steps {
					low := tonight.Causes[0].Confidence == probe.Low
					if s.Name == "unsure" && (s.LeftOut == "") != low || s.Deed != nil && low {
						t.Errorf("%s: %+v, and it is %s", name, s, tonight.Causes[0].Confidence)
					}
				}
			}
		})
	}
}

func unnamed(t *testing.T, b *runbook.Runbook, tonight report.Run) {
	t.Helper()
	want := map[string]string{
		"healthy": "well", "warnings": "well", "incomplete": "not-seen", "fault": "unexplained",
	}[tonight.Verdict.Word]
	branch, record := played(t, b, nil, tonight)
	if branch != want || record.Outcome.Verdict != tonight.Verdict.Word {
		t.Errorf("%s with no cause: it goes %s and comes to %+v", tonight.Verdict.Word, branch, *record.Outcome)
	}
}

// TestServicesThatGoOn requires that a dead kube-proxy, whose rules still exist, is not blamed for what they do.
func TestServicesThatGoOn(t *testing.T) {
	t.Parallel()
	tonight := night(t, nightfile.Path("lab-services-stale"))
	for name, b := range builtin(t) {
		branch, _ := played(t, b, nil, tonight)
		want := map[string]string{
			beforeReboot: "other-fault", beforeUpgrade: "other-fault",
			"node-not-ready": "other-fault", "runtime-wedged": "other-fault",
		}[name]
		if branch != cmp.Or(want, "this-symptom") && name != manyNodes {
			t.Errorf("%s goes %s", name, branch)
		}
	}
}

// TestBeforeRebootLooksPastTheFirst requires what a reboot brings back to be reported beside any other cause, and to be
// gone before a reboot is called safe.
func TestBeforeRebootLooksPastTheFirst(t *testing.T) {
	t.Parallel()
	b := builtin(t)[beforeReboot]
	impatient(b)
	mild := night(t, nightfile.Path("003a-the-night-before"))
	full := mild
	full.Causes = append([]probe.Cause{{ID: "disk-full", Says: "the disk is full", Confidence: probe.High}},
		mild.Causes...)
	branch, record := played(t, b, map[string]string{"fixed": "done"}, full, mild)
	if o := record.Outcome; branch != "swap-returns" || o.Exit == 0 || !strings.Contains(o.Says, mild.Causes[0].Says) {
		t.Errorf("it goes %s and comes to %+v", branch, *o)
	}
	_, record = played(t, b, nil, full)
	if o := record.Outcome; o.Verdict != "fault" || !strings.Contains(o.Says, "the disk is full") ||
		!strings.Contains(o.Says, mild.Causes[0].Says) {
		t.Errorf("it comes to %+v", *o)
	}
}

// TestBeforeUpgrade plays the effects of manual settings in v3.33.
func TestBeforeUpgrade(t *testing.T) {
	t.Parallel()
	b := builtin(t)[beforeUpgrade]
	with := func(status probe.Status, saw string, of probe.Facts) report.Run {
		tonight := night(t, nightfile.Path("healthy"))
		tonight.Events = slices.DeleteFunc(tonight.Events,
			func(ev probe.Event) bool { return ev.Result != nil && ev.Result.Check == facts.CheckRouteMakers })
		if status != "" {
			tonight.Events = append(tonight.Events, probe.Event{Type: probe.EventResult, Node: tonight.Node, Method: "api",
				Result: &probe.Result{Check: facts.CheckRouteMakers, Status: status, Saw: saw, Facts: of}})
		}
		return tonight
	}
	next := func(word string) probe.Facts { return probe.Facts{"next_makers": word} }
	for want, tonight := range map[string]report.Run{
		"clash-then none": with(probe.Info, "nobody makes them", next("none")),
		"clash-then both": with(probe.Info, "both make them", next("both")),
		"moves":           with(probe.Info, "Felix makes them then", next("move")),
		"stays":           with(probe.OK, "BIRD makes them", next("stay")),
		"stays VXLAN":     with(probe.Skip, "all have VXLAN", nil),
		"not-looked":      with(probe.Unknown, "forbidden", nil),
		"not-looked old":  with("", "", nil),
	} {
		branch, record := played(t, b, nil, tonight)
		name, _, _ := strings.Cut(want, " ")
		o := record.Outcome
		exit := map[string]int{"clash-then": report.ExitFault, "not-looked": report.ExitIncomplete}[name]
		if branch != name || o.Exit != exit {
			t.Errorf("%s: it goes %s and comes to %+v", want, branch, *o)
		}
	}
	clash := night(t, nightfile.Path("route-makers-none"))
	branch, record := played(t, b, nil, clash)
	if o := record.Outcome; branch != "clash-now" || o.Verdict != "fault" ||
		!strings.Contains(o.Says, "no daemon sets the routes") {
		t.Errorf("it goes %s and comes to %+v", branch, *record.Outcome)
	}
}

// impatient shortens waits.
func impatient(b *runbook.Runbook) {
	for i := range b.Spec.Steps {
		if w := b.Spec.Steps[i].Wait; w != nil {
			w.Within, w.Every = runbook.Duration(10*time.Millisecond), runbook.Duration(time.Millisecond)
		}
	}
}

// TestAlerts plays every alert that a built-in runbook declares, as fired by common rules (kubernetes-mixin, and for
// Calico docs/alerts.md). Each must name a node or a pod, and have exactly one runbook.
func TestAlerts(t *testing.T) {
	t.Parallel()
	kube := map[string]string{"namespace": "kube-system", "pod": "calico-node-x7k2p", "container": "calico-node"}
	operator := map[string]string{"namespace": "calico-system", "pod": "calico-node-x7k2p"}
	node := map[string]string{"node": "worker-3"}
	scraped := map[string]string{"instance": "10.0.0.3:9091"}
	fired := []struct {
		alert, runbook string
		labels         map[string]string
	}{
		{"KubeNodeNotReady", "node-not-ready", node},
		{"KubeNodeUnreachable", "node-not-ready", node},
		{"KubeNodeReadinessFlapping", "runtime-wedged", node},
		{"KubeletPlegDurationHigh", "runtime-wedged", node},
		{"KubeletPodStartUpLatencyHigh", "runtime-wedged", node},
		{"KubePodCrashLooping", "calico-node-crashloop", kube},
		{"KubePodCrashLooping", "calico-node-crashloop", operator},
		{"KubePodNotReady", "calico-node-init", kube},
		{"KubeContainerWaiting", "calico-node-init", operator},
		{"CalicoBGPSessionDown", "bgp-not-established", scraped},
		{"CalicoBGPPeerDown", "bgp-not-established", scraped},
		{"CalicoNodeInstanceDown", "node-trouble", scraped},
		{"CalicoNodeNotReady", "node-trouble", node},
		{"KubePodCrashLooping", "", map[string]string{"namespace": "shop", "pod": "cart-0"}},
		{"KubePodCrashLooping", "", map[string]string{"namespace": "kube-system", "pod": "calico-kube-controllers-6d"}},
		{"KubePodNotReady", "", map[string]string{"namespace": "shop", "pod": "calico-node-of-mine"}},
	}
	all := builtin(t)
	seen := map[string]bool{}
	for _, f := range fired {
		var by []string
		for _, name := range slices.Sorted(maps.Keys(all)) {
			for _, text := range all[name].Spec.Alerts {
				alert, matchers, err := runbook.Alert(text)
				if err != nil {
					t.Fatal(err)
				}
				if alert == f.alert && !slices.ContainsFunc(matchers,
					func(m *labels.Matcher) bool { return !m.Matches(f.labels[m.Name]) }) {
					by, seen[text] = append(by, name), true
				}
			}
		}
		if strings.Join(by, " ") != f.runbook {
			t.Errorf("%s of %v is answered by %q, want %q", f.alert, f.labels, by, f.runbook)
		}
	}
	for name, b := range all {
		for _, text := range b.Spec.Alerts {
			if !seen[text] {
				t.Errorf("%s: nobody knows what labels %s has", name, text)
			}
		}
	}
}

// TestMended plays a night in which the fault was fixed meanwhile.
func TestMended(t *testing.T) {
	t.Parallel()
	all := builtin(t)
	ill, well := night(t, nightfile.Path("cni-config-missing")), night(t, nightfile.Path("healthy"))
	well.Node = ill.Node
	for i := range well.Events {
		well.Events[i].Node = ill.Node
	}
	branch, record := played(t, all["pods-no-network"], map[string]string{"fixed": "done"}, ill, well)
	o := record.Outcome
	if branch != "this-symptom" || o.Verdict != "healthy" || !strings.Contains(o.Says, ill.Causes[0].Says) {
		t.Errorf("it goes %s and comes to %+v", branch, *o)
	}
}

// TestMildIsNotMended requires that a node with a remaining warning is not called healthy.
func TestMildIsNotMended(t *testing.T) {
	t.Parallel()
	b := builtin(t)[beforeReboot]
	mild := night(t, nightfile.Path("003a-the-night-before"))
	impatient(b)
	_, record := played(t, b, map[string]string{"fixed": "done"}, mild)
	if o := record.Outcome; o.Verdict == "healthy" || !strings.Contains(o.Says, "do not reboot") {
		t.Errorf("it comes to %+v", *o)
	}
}

// TestBeforeRebootLooks requires that no reboot is called safe if the swap check has no answer.
func TestBeforeRebootLooks(t *testing.T) {
	t.Parallel()
	b := builtin(t)[beforeReboot]
	tonight := night(t, nightfile.Path("healthy"))
	tonight.Events = slices.DeleteFunc(tonight.Events,
		func(ev probe.Event) bool { return ev.Result != nil && ev.Result.Check == host.NodeSwap.ID })
	branch, record := played(t, b, nil, tonight)
	if branch != "not-looked" || record.Outcome.Exit != report.ExitIncomplete {
		t.Errorf("it goes %s and comes to %+v", branch, *record.Outcome)
	}
}

// TestActionsKubectl requires the action to be for the observed pod in the runbook's cluster. Nothing may start if that
// cluster is unknown.
func TestActionsKubectl(t *testing.T) {
	t.Parallel()
	b := builtin(t)["pods-no-network"]
	ill := night(t, nightfile.Path("cni-config-missing"))
	silent := func(string) {}
	deed := func(not string) *runbook.Deed {
		e := runbook.Engine{
			Runbook: b, Actions: []string{"restart-calico-node"}, Commands: true,
			Journal: runbook.NewJournal(runbook.Header{Runbook: b.Metadata.Name, Node: ill.Node, Params: map[string]string{}}),
			World: runbook.World{
				Kubeconfig: func() (string, func(), error) { return "/nowhere", func() {}, nil }, NoKubectl: not,
				Run:      func(context.Context, string, runbook.Run) (report.Run, error) { return ill, nil },
				Agree:    func(context.Context, runbook.Run, []string) error { return nil },
				Ask:      func(context.Context, runbook.Question) (string, error) { return "", runbook.ErrNoPerson },
				Confirm:  func(context.Context, runbook.Proposal) (bool, error) { return false, runbook.ErrNoPerson },
				Show:     func(runbook.Entry) error { return nil },
				Progress: silent, Say: silent, Waits: silent,
			},
		}
		record := must.Get(e.Do(t.Context()))(t)
		for _, s := range record.Steps {
			if s.Deed != nil {
				return s.Deed
			}
		}
		t.Fatal("no action was come to")
		return nil
	}
	d := deed("")
	if got := strings.Join(d.Command, " "); !strings.HasPrefix(got, "kubectl delete --namespace=kube-system pod/calico-node-") {
		t.Errorf("its command: %s", got)
	}
	if d.NotRun == "" { // there is no such cluster, and nobody to confirm it
		t.Errorf("it was done: %+v", d)
	}
	if d := deed("a secret would show"); !strings.Contains(d.NotRun, "a secret would show") || d.DryRun != "" {
		t.Errorf("without a way to the cluster: %+v", d)
	}
}

// TestABusyNode requires that load hides no other cause: the other cause decides the branch, and both are reported.
func TestABusyNode(t *testing.T) {
	t.Parallel()
	named := func(id string) probe.Cause {
		return probe.Cause{ID: id, Says: id + " it is", Confidence: probe.Medium, Fix: probe.Fix{Says: "mend " + id},
			Runbooks: []string{"bgp-not-established"}}
	}
	tonight := answer("node-a", map[string]probe.Status{"bgp-session": probe.Fail}, named("node-overloaded"),
		named("peer-bird-dead"))
	branch, r := played(t, builtin(t)["bgp-not-established"], nil, tonight)
	said := r.Outcome.Says + r.Outcome.Next + step(t, r, "also").Text
	if branch != "this-symptom" || !strings.Contains(step(t, r, "fix").Text, "mend peer-bird-dead") ||
		!strings.Contains(said, "node-overloaded it is") || !strings.Contains(said, "mend node-overloaded") {
		t.Errorf("branch %s: %+v", branch, r.Outcome)
	}
}
