package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/report"
)

// TestCalicoNamespaceFlag wants every verb that reads the cluster to take the flag, and a
// name that is none refused in a line.
func TestCalicoNamespaceFlag(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{
		"run --node a", "shell --node a -c help", "preflight", "runbook run node-not-ready --node a", "serve", "clean",
	} {
		for _, name := range []string{"a/b", "--all", "Tenant", ""} {
			var out, errs bytes.Buffer
			streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs}
			code := Run(t.Context(), streams, append(strings.Fields(verb), "--calico-namespace", name))
			said := errs.String()
			if code != report.ExitUsage || !strings.Contains(said, "it is no name of a namespace") || strings.Count(said, "\n") != 1 {
				t.Errorf("%s with %q: exit %d, %s", verb, name, code, said)
			}
		}
	}
	var out, errs bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs}
	code := Run(t.Context(), streams, []string{"run", "--via", "local", "--calico-namespace", "x"})
	if code != report.ExitUsage || !strings.Contains(errs.String(), "leave out --calico-namespace") {
		t.Errorf("by --via local: exit %d, %s", code, errs.String())
	}
}

// TestWhereTheProbeGoes wants the pod's namespace to follow from a verified calico-node and
// from nothing else.
func TestWhereTheProbeGoes(t *testing.T) {
	t.Parallel()
	o := &runOptions{app: &app{elsewhere: new(atomic.Bool), flags: genericclioptions.NewConfigFlags(false)}}
	o.calicoNamespace = "named" // which is where calico-node is looked for, and no more
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "calico-system"}}
	for _, c := range []struct {
		want string
		snap *cluster.Snapshot
	}{
		{"calico-system", &cluster.Snapshot{Calico: pod}},
		{metav1.NamespaceSystem, &cluster.Snapshot{CalicoErr: &cluster.UnverifiedError{}}},
		{metav1.NamespaceSystem, nil},
	} {
		if got := o.namespace(c.snap); got != c.want {
			t.Errorf("%+v: namespace %s, want %s", c.snap, got, c.want)
		}
	}
	snap := &cluster.Snapshot{Node: &corev1.Node{}, CalicoErr: &cluster.UnverifiedError{}}
	opts := o.placement(wayEphemeral, snap, attempt{})
	if pe, ok := errors.AsType[*injector.PlacementError](opts.CalicoErr); !ok || pe.Reason != facts.ReasonNoCalico || opts.Calico != nil {
		t.Errorf("to join there is %v, %v", opts.Calico, opts.CalicoErr)
	}
}

// TestNamedNamespace wants a name given by -n that is none, and one that no namespace has,
// to end the run there: no other way is tried.
func TestNamedNamespace(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"run --node a", "shell --node a -c help", "preflight", "clean"} {
		var out, errs bytes.Buffer
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs}
		code := Run(t.Context(), streams, append(strings.Fields(verb), "-n", "Bad_NS"))
		said := errs.String()
		if code != report.ExitUsage || !strings.Contains(said, `-n "Bad_NS" is no name of a namespace`) || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: exit %d, %s", verb, code, said)
		}
	}
	missing := &injector.PlacementError{
		Reason: facts.ReasonNamespace, Text: "not found",
		Err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "nosuchns"),
	}
	ending := &injector.PlacementError{Reason: facts.ReasonNamespace, Text: "forbidden, because it is being terminated"}
	early := &injector.PlacementError{Reason: facts.ReasonNamespace, Text: "error looking up service account"}
	for _, c := range []struct {
		named, says string
		refused     error
		tries       int
	}{
		{"nosuchns", `there is no namespace "nosuchns": leave out -n, or 'calico-probe manifests -n nosuchns' prints it`, missing, 1},
		{"old", `namespace "old" is being deleted`, ending, 1},
		{"new", "", early, 2},
		{"", "", missing, 2},
	} {
		o := &runOptions{app: &app{elsewhere: new(atomic.Bool), IOStreams: genericiooptions.IOStreams{ErrOut: &bytes.Buffer{}}, flags: genericclioptions.NewConfigFlags(true)}, sink: &seenEvents{}, tally: report.NewTally()}
		*o.flags.Namespace = c.named
		tries := 0
		refuse := func(context.Context, injector.Options) (*injector.Session, error) { tries++; return nil, c.refused }
		err := o.climb(t.Context(), []rung{{name: wayPod, open: refuse}, {name: wayEphemeral, open: refuse}}, nil, func() bool { return true }, nil)
		if tries != c.tries || errors.As(err, new(usageError)) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("-n %q: %d ways tried, %v", c.named, tries, err)
		}
	}
	if r := rehearsed(missing, ""); r.Status != probe.Fail || !strings.HasPrefix(r.Saw, `there is no namespace "nosuchns"; `) {
		t.Errorf("%+v", r)
	}
	// One way that works is enough, unless a run would end before it.
	for named, want := range map[string]error{"nosuchns": exit(report.ExitFault), "": nil} {
		p := &preflight{runOptions: &runOptions{app: &app{flags: genericclioptions.NewConfigFlags(true)}, sink: &seenEvents{}, tally: report.NewTally()}}
		*p.flags.Namespace = named
		p.add(wayPod, askAdmission, rehearsed(missing, ""))
		if err := p.conclude([]string{wayPod, wayExec}); err != want {
			t.Errorf("preflight -n %q: %v", named, err)
		}
	}
}
