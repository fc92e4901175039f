package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/examine"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/install"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/report"
	"github.com/calico-probe/calico-probe/ui"
)

// TestPreflightVerdict wants every way that was named to have to work, and of those that
// were not one to be enough; what is not known is never ready.
func TestPreflightVerdict(t *testing.T) {
	t.Parallel()
	auto := []string{injector.MethodAPI, injector.MethodPod, injector.MethodEphemeral,
		injector.MethodExec, injector.MethodSSH}
	for name, c := range map[string]struct {
		named []string
		found map[string]probe.Status
		exit  int
	}{
		"all well": {found: map[string]probe.Status{}, exit: report.ExitHealthy},
		"one of auto is enough": {found: map[string]probe.Status{injector.MethodPod: probe.Fail,
			injector.MethodEphemeral: probe.Unknown}, exit: report.ExitHealthy},
		"a login that failed beside ways that work": {
			found: map[string]probe.Status{injector.MethodSSH: probe.Fail}, exit: report.ExitHealthy,
		},
		"a login that was not tried": {found: map[string]probe.Status{injector.MethodPod: probe.Fail,
			injector.MethodEphemeral: probe.Fail, injector.MethodExec: probe.Fail}, exit: report.ExitFault},
		"the last may work": {found: map[string]probe.Status{injector.MethodPod: probe.Unknown,
			injector.MethodEphemeral: probe.Fail, injector.MethodExec: probe.Fail}, exit: report.ExitIncomplete},
		"the API is always needed": {found: map[string]probe.Status{injector.MethodAPI: probe.Fail},
			exit: report.ExitFault},
		"what is no way's is not known": {found: map[string]probe.Status{"": probe.Unknown}, exit: report.ExitIncomplete},
		"named": {named: []string{injector.MethodPod, injector.MethodExec},
			found: map[string]probe.Status{injector.MethodPod: probe.Fail}, exit: report.ExitFault},
		"named, and not known": {named: []string{injector.MethodPod},
			found: map[string]probe.Status{injector.MethodPod: probe.Unknown}, exit: report.ExitIncomplete},
		"named, with less": {named: []string{injector.MethodPod},
			found: map[string]probe.Status{injector.MethodPod: probe.Warn}, exit: report.ExitHealthy},
	} {
		var whole, stream bytes.Buffer
		kept := &examine.Recorder{}
		for format, w := range map[string]*bytes.Buffer{"json": &whole, "ndjson": &stream} {
			sink, err := report.New(format, w, false)
			if err != nil {
				t.Fatal(err)
			}
			kept.Others = append(kept.Others, sink)
		}
		p := preflightOf(t, "", kept)
		p.ways = c.named
		ways := c.named
		if ways == nil {
			ways = auto
		}
		for way, s := range c.found {
			p.add(way, askRights, probe.Found(s, "seen"))
		}
		got, done := report.ExitHealthy, ui.Exit(0)
		if errors.As(p.conclude(ways), &done) {
			got = int(done)
		}
		if got != c.exit {
			t.Errorf("%s: exit %d, want %d", name, got, c.exit)
		}
		if err := validate(compiled(t, "report"), whole.String()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for line := range strings.Lines(stream.String()) {
			if err := validate(compiled(t, "event"), line); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestImageOn(t *testing.T) {
	t.Parallel()
	full := &corev1.Node{}
	for range listed {
		full.Status.Images = append(full.Status.Images, corev1.ContainerImage{Names: []string{"other:1"}})
	}
	has := &corev1.Node{Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{"p@sha256:1", "p:1"}}}}}
	for want, r := range map[string]probe.Result{
		"is on node": imageOn(has, "p:1"), "sha256:1 is on node": imageOn(has,
			"p:1@sha256:1"), "sha256:2 is not on node": imageOn(has,
			"p:1@sha256:2"), "not among the 50 images": imageOn(full, "p:1"), "is not on node": imageOn(&corev1.Node{}, "p:1"),
	} {
		if !strings.Contains(r.Saw, want) || (r.Status == probe.OK) != (!strings.Contains(want, "not") &&
			strings.HasSuffix(want, "is on node")) {
			t.Errorf("%s: %s %s", want, r.Status, r.Saw)
		}
	}
}

// TestRightsElsewhere wants a user who has the access method pod only where 'manifests' grants it told
// to name that namespace, instead of to ask for what they have.
func TestRightsElsewhere(t *testing.T) {
	t.Parallel()
	for allowed, want := range map[string]string{install.Namespace: "you have it: name -n calico-probe", "nowhere": "ask for what 'calico-probe manifests --ways pod' prints"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var review authorizationv1.SelfSubjectAccessReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
				t.Error(err)
			}
			review.Status.Allowed = review.Spec.ResourceAttributes.Namespace == allowed
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(review)
		}))
		defer server.Close()
		client, err := cluster.NewClient(&rest.Config{Host: server.URL,
			ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, "")
		if err != nil {
			t.Fatal(err)
		}
		p := preflightOf(t, "", &examine.Recorder{})
		if err := p.rights(t.Context(), client, nil, []string{injector.MethodPod}); err != nil {
			t.Fatal(err)
		}
		if r := p.found[0].Result; r.Status != probe.Fail || !strings.HasSuffix(r.Saw, want) {
			t.Errorf("allowed in %s: %s %s", allowed, r.Status, r.Saw)
		}
	}
}

// TestRightsOfCalicoNamespace wants rights that are missing beside calico-node asked for where it
// runs, and none of 'serve' missing because it runs elsewhere than 'manifests' assumes.
func TestRightsOfCalicoNamespace(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SelfSubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		review.Status.Allowed = review.Spec.ResourceAttributes.Namespace != "calico-system"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer server.Close()
	client, err := cluster.NewClient(&rest.Config{Host: server.URL,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	snap := &cluster.Snapshot{Node: &corev1.Node{},
		Calico: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "calico-system"}}}
	p := preflightOf(t, install.Namespace, &examine.Recorder{})
	if err := p.rights(t.Context(), client, snap, []string{injector.MethodAPI, injector.MethodPod, useServe,
		injector.MethodExec}); err != nil {
		t.Fatal(err)
	}
	for _, ev := range p.found {
		want, says := probe.OK, "rights granted"
		if ev.Way == injector.MethodExec {
			want, says = probe.Fail, "ask for what 'calico-probe manifests --ways exec --calico-namespace calico-system' prints"
		}
		if r := ev.Result; r.Status != want || !strings.HasSuffix(r.Saw, says) {
			t.Errorf("%s: %s %s", ev.Way, r.Status, r.Saw)
		}
	}
}

// TestPreflightOfNobody wants somebody without any right told which one is missing, by preflight
// without the advice to use preflight.
func TestPreflightOfNobody(t *testing.T) {
	t.Parallel()
	for version, c := range map[bool]struct {
		exit int
		says string
	}{
		true:  {report.ExitFault, "nothing is known of any node: no right to list nodes: "},
		false: {report.ExitTool, "error: no right to do this: asking the API server for its version"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case version && r.URL.Path == "/version":
				_, _ = io.WriteString(w, `{"major": "1", "minor": "37", "gitVersion": "v1.37.1"}`)
				return
			case strings.HasSuffix(r.URL.Path, "selfsubjectaccessreviews"):
				_, _ = io.WriteString(w, `{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "status": {"allowed": false}}`)
				return
			}
			verb := map[bool]string{true: "list", false: "get"}[r.URL.Path == "/api/v1/nodes"]
			refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", fmt.Errorf("User %q cannot %s resource %q", "nobody", verb, "nodes")).Status()
			refusal.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(refusal)
		}))
		config := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(config, []byte("apiVersion: v1\nkind: Config\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		code := Run(t.Context(), genericiooptions.IOStreams{Out: &out, ErrOut: &errs},
			[]string{"preflight", "--kubeconfig", config, "--server", server.URL})
		server.Close()
		said := out.String() + errs.String()
		if code != c.exit || !strings.Contains(said, c.says) || strings.Contains(said, "'calico-probe preflight'") {
			t.Errorf("exit %d: %s", code, said)
		}
	}
}

// TestShellRehearsed wants preflight to rehearse what 'sh' makes too, and to name the
// namespace that was asked. The API server is a stand-in.
func TestShellRehearsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		way     string
		refuses func(corev1.Pod) string // and why
		status  probe.Status
		says    string
		pods    int
		jobs    string // in which namespace the clean-up job was asked about
	}{
		"admitted": {way: useShell, refuses: func(corev1.Pod) string { return "" }, status: probe.OK, says: "a pod in namespace kube-system is admitted, and the privileged one of 'sh' in namespace kube-system", pods: 2, jobs: "kube-system"},
		"no privileged one": {way: useShell, refuses: func(pod corev1.Pod) string {
			if sc := pod.Spec.Containers[0].SecurityContext; sc.Privileged != nil && *sc.Privileged {
				return "denied by somebody's policy"
			}
			return ""
		}, status: probe.Fail, says: "the pod of 'sh', which is privileged: the cluster's policy refuses the probe", pods: 3},
		"a probe's alone": {way: injector.MethodPod, refuses: func(corev1.Pod) string { return "" }, status: probe.OK, says: "a pod in namespace kube-system is admitted", pods: 1, jobs: "kube-system"},
		"elsewhere": {way: injector.MethodPod, refuses: func(pod corev1.Pod) string {
			if pod.Namespace == install.Namespace {
				return ""
			}
			return `User "joe" cannot create resource "pods"`
		}, status: probe.OK, says: "a pod in namespace calico-probe is admitted", pods: 2, jobs: "calico-probe"},
	} {
		pods, jobs := 0, ""
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Query().Get("dryRun") != "All" {
				t.Errorf("%s: %s is no dry run", name, r.URL)
			}
			if rest, job := strings.CutPrefix(r.URL.Path, "/apis/batch/v1/namespaces/"); job {
				jobs, _, _ = strings.Cut(rest, "/")
				asked, _ := io.ReadAll(r.Body)
				_, _ = w.Write(asked)
				return
			}
			pods++
			var pod corev1.Pod
			if err := json.NewDecoder(r.Body).Decode(&pod); err != nil {
				t.Error(err)
			}
			if why := c.refuses(pod); why != "" {
				refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New(why)).Status()
				w.WriteHeader(http.StatusForbidden)
				_ = json.NewEncoder(w).Encode(refusal)
				return
			}
			_ = json.NewEncoder(w).Encode(pod)
		}))
		writer, err := injector.NewClient(&rest.Config{Host: server.URL,
			ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
		if err != nil {
			t.Fatal(err)
		}
		p := preflightOf(t, "", &examine.Recorder{})
		found := p.ofWay(t.Context(), writer, nil, &cluster.Snapshot{Node: &corev1.Node{}}, c.way)
		server.Close()
		if r := found[0].Result; r.Status != c.status || !strings.HasPrefix(r.Saw, c.says) ||
			pods != c.pods || jobs != c.jobs {
			t.Errorf("%s: %s %s, %d pods, job in %q", name, r.Status, r.Saw, pods, jobs)
		}
	}
}

// TestRightNamed wants a right that lacks named first, and what to do about it.
func TestRightNamed(t *testing.T) {
	t.Parallel()
	nodes := schema.GroupResource{Resource: "nodes"}
	for want, why := range map[string]string{
		"no right to list nodes: listing nodes: ": `User "joe" cannot list resource "nodes" in API group "" at the cluster scope`,
		"no right to do this: listing nodes: ":    "as somebody's own authoriser says",
	} {
		got := cluster.Explain(fmt.Errorf("listing nodes: %w", apierrors.NewForbidden(nodes, "", errors.New(why))))
		if !strings.HasPrefix(got, want) || !strings.Contains(got, why) ||
			!strings.Contains(got, "'calico-probe manifests") {
			t.Error(got)
		}
	}
}

// TestManifests wants manifests with the subjects they are for, and one line for what is wrong.
func TestManifests(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct {
		exit int
		says string
	}{
		"install":                                {report.ExitUsage, `unknown command "install"`},
		"manifests --ways pods":                  {report.ExitUsage, `unknown access method "pods"`},
		"manifests --service-account runner":     {report.ExitUsage, "NAMESPACE:NAME"},
		"manifests --ways api --user jane":       {report.ExitHealthy, "name: jane"},
		"manifests --ways neighbour -n there":    {report.ExitHealthy, "namespace: there"},
		"manifests --calico-namespace elsewhere": {report.ExitHealthy, "namespace: elsewhere"},
		"manifests -n Ops":                       {report.ExitUsage, `"Ops" is no name of a namespace`},
		"manifests --calico-namespace a/b":       {report.ExitUsage, `"a/b" is no name of a namespace`},
		"preflight --via local":                  {report.ExitUsage, `unknown access method "local"; --via takes auto, or a list of api, pod`},
		"preflight --via pod,pod":                {report.ExitUsage, "--via names pod twice"},
		"preflight --via pods":                   {report.ExitUsage, "did you mean pod?"},
		"preflight --ssh root@a;b":               {report.ExitUsage, `--ssh "root@a;b" is no destination`},
		"preflight --ssh root@":                  {report.ExitUsage, `--ssh "root@" is no destination`},
		"preflight --ssh {other}":                {report.ExitUsage, `--ssh "{other}" is no destination`},
		"preflight --ssh-config /nofile":         {report.ExitUsage, "--ssh-config: stat /nofile: no such file"},
		"preflight --ssh-config /":               {report.ExitUsage, "--ssh-config: / is a folder"},
		"preflight --ssh -x":                     {report.ExitUsage, "is no destination"},
	} {
		var out, errs bytes.Buffer
		got := Run(t.Context(), genericiooptions.IOStreams{Out: &out, ErrOut: &errs}, strings.Fields(args))
		if got != want.exit || !strings.Contains(out.String()+errs.String(), want.says) {
			t.Errorf("%s: exit %d: %s%s", args, got, &out, &errs)
		}
		if want.exit == report.ExitUsage && (out.Len() > 0 || strings.Count(errs.String(), "\n") != 1) {
			t.Errorf("%s: %s%s", args, &out, &errs)
		}
	}
}

// TestSeveral wants the last item of a list completed, by what is not in it yet.
func TestSeveral(t *testing.T) {
	t.Parallel()
	a := &app{flags: genericclioptions.NewConfigFlags(true)}
	verb, _, err := a.command().Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	complete, ok := verb.GetFlagCompletionFunc("checks")
	if !ok {
		t.Fatal("--checks is not completed")
	}
	via, _ := verb.GetFlagCompletionFunc("via")
	one, _ := via(verb, nil, "")
	more, _ := via(verb, nil, "exec,p")
	if !slices.Contains(one, "api") || !slices.Contains(one, "auto") ||
		!slices.Equal(more, []string{"exec,pod", "exec,ephemeral", "exec,ssh"}) {
		t.Errorf("--via: %v, %v", one, more)
	}
	got, _ := complete(verb, nil, "bgp-session,fel")
	if !slices.Contains(got, "bgp-session,felix-live") || !slices.Contains(got, "bgp-session,bgp") ||
		slices.Contains(got, "bgp-session,bgp-session") {
		t.Errorf("got %v", got)
	}
}

// TestAdvised wants commands that help and messages advise to have the name of the plugin,
// and data to be the same by both names: not parallel, for what a program is called is one
// for all of it.
func TestAdvised(t *testing.T) {
	said := func(args ...string) string {
		var out, errs bytes.Buffer
		Run(t.Context(), genericiooptions.IOStreams{Out: &out, ErrOut: &errs}, args)
		return out.String() + errs.String()
	}
	data := []string{"schema", "event"}
	plain := said(data...)
	ui.AsPlugin = true
	defer func() { ui.AsPlugin = false }()
	if got, want := ui.Advised("use 'calico-probe clean', container calico-probe-1\n  calico-probe run\n"), "use 'kubectl calico-probe clean', container calico-probe-1\n  kubectl calico-probe run\n"; got != want {
		t.Errorf("got %q", got)
	}
	for want, args := range map[string][]string{
		"  kubectl calico-probe run --node worker-3\n": {"run", "--help"},
		"  kubectl calico-probe [command]\n":           nil,
		"'kubectl calico-probe checks' lists them":     {"run", "--node", "n", "--checks", "nothing"},
	} {
		if got := said(args...); !strings.Contains(got, want) || strings.Contains(got, "\n  calico-probe ") {
			t.Errorf("%v: no %q in %s", args, want, got)
		}
	}
	if got := said(data...); got != plain {
		t.Errorf("by the plugin's name data is %.300s", got)
	}
}

// TestEnterable wants the first container that one may go into, and where there is none the
// right that lacks, in the namespace it lacks in.
func TestEnterable(t *testing.T) {
	t.Parallel()
	targets := []string{"calico-system/calico-node-x/calico-node", "kube-system/kube-proxy-y/kube-proxy"}
	for want, c := range map[string]struct {
		may    []bool
		status probe.Status
	}{
		"container calico-system/calico-node-x/calico-node is there to go into; whether it has a shell is not known":                                     {[]bool{true, true}, probe.Unknown},
		"container kube-system/kube-proxy-y/kube-proxy is there to go into; whether it has a shell is not known":                                         {[]bool{false, true}, probe.Unknown},
		"create pods/exec in namespace calico-system or kube-system: ask for what 'calico-probe manifests --ways exec --calico-namespace calico-system'": {[]bool{false, false}, probe.Fail},
	} {
		if r := enterable(targets, c.may); r.Status != c.status || !strings.Contains(r.Saw, want) {
			t.Errorf("%v: %s %s", c.may, r.Status, r.Saw)
		}
	}
}

// preflightOf is a preflight of node-a, with the namespace that -n names.
func preflightOf(t *testing.T, namespace string, sink report.Sink) *preflight {
	t.Helper()
	client := examine.NewClient(examine.Config{Namespace: namespace, Probe: embeddedProbe, Ours: isOurs}, io.Discard)
	opts := examine.Options{
		Node: "node-a", Via: examine.ViaAuto, Profile: string(probe.Standard), FailOn: examine.FailOnFail,
		Image: probe.Image, Timeout: time.Minute,
	}
	run, err := examine.New(client, opts, sink)
	if err != nil {
		t.Fatal(err)
	}
	a := &app{flags: genericclioptions.NewConfigFlags(false)}
	return &preflight{runFlags: &runFlags{app: a, Options: opts}, client: client, run: run, sink: sink}
}

// TestPreflightOfNoNode wants a report where no node could be read to claim none.
func TestPreflightOfNoNode(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/version" {
			_, _ = w.Write([]byte(`{"major":"1","minor":"36","gitVersion":"v1.36.0"}`))
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
	}))
	t.Cleanup(server.Close)
	exit, out, errs := call(t, "preflight", "--kubeconfig", kubeconfigTo(t, server.URL))
	if exit != report.ExitIncomplete && exit != report.ExitFault || !strings.Contains(out, "on node none (") ||
		strings.Contains(out, "node any") {
		t.Errorf("exit %d\n%s%s", exit, out, errs)
	}
}
