package preflight

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/install"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestVerdict requires every named access method to work, and one to be enough otherwise. Unknown is never ready.
func TestVerdict(t *testing.T) {
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
		p := of(t, "", &examine.Recorder{})
		p.named = c.named
		methods := c.named
		if methods == nil {
			methods = auto
		}
		for method, s := range c.found {
			p.add(method, askRights, probe.Found(s, "seen"))
		}
		got, done := report.ExitHealthy, ui.Exit(0)
		if errors.As(p.conclude(methods), &done) {
			got = int(done)
		}
		if got != c.exit {
			t.Errorf("%s: exit %d, want %d", name, got, c.exit)
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

func TestAsListed(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"ghcr.io/a/probe:1":              "ghcr.io/a/probe:1",
		"ghcr.io/a/probe:1@sha256:0f":    "ghcr.io/a/probe@sha256:0f",
		"ghcr.io/a/probe@sha256:0f":      "ghcr.io/a/probe@sha256:0f",
		"local:5000/a/probe@sha256:0f":   "local:5000/a/probe@sha256:0f",
		"local:5000/a/probe:1@sha256:0f": "local:5000/a/probe@sha256:0f",
		probe.Image + "@sha256:0f":       strings.TrimSuffix(probe.Image, ":"+probe.Release) + "@sha256:0f",
	} {
		if got := asListed(image); got != want {
			t.Errorf("%s is listed as %s, want %s", image, got, want)
		}
	}
}

// TestRightsElsewhere requires a hint for users who have the rights of pod only in the namespace of 'manifests': to
// name it, not to request more rights.
func TestRightsElsewhere(t *testing.T) {
	t.Parallel()
	for allowed, want := range map[string]string{install.Namespace: "it is granted: use -n calico-probe", "nowhere": "apply the output of: calico-probe manifests --methods pod"} {
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
		client := must.Get(cluster.NewClient(&rest.Config{Host: server.URL,
			ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, ""))(t)
		p := of(t, "", &examine.Recorder{})
		p.reader = client
		must.Do(t, p.rights(t.Context(), []string{injector.MethodPod}))
		if r := p.found[0].Result; r.Status != probe.Fail || !strings.HasSuffix(r.Saw, want) ||
			allowed == install.Namespace && strings.Contains(r.Saw, applyOutput) {
			t.Errorf("allowed in %s: %s %s", allowed, r.Status, r.Saw)
		}
	}
}

// TestRightsOfCalicoNamespace requires missing rights to be named for calico-node's actual namespace, and none of
// 'serve' to be missing because it is not the default one.
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
	client := must.Get(cluster.NewClient(&rest.Config{Host: server.URL,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, ""))(t)
	snap := &cluster.Snapshot{Node: &corev1.Node{},
		Calico: cluster.Read[*corev1.Pod]{Value: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "calico-system"}}}}
	p := of(t, install.Namespace, &examine.Recorder{})
	p.reader, p.snap = client, snap
	must.Do(t, p.rights(t.Context(), []string{injector.MethodAPI, injector.MethodPod, useServe,
		injector.MethodExec}))
	for _, ev := range p.found {
		want, says := probe.OK, "rights granted"
		if ev.Method == injector.MethodExec {
			want, says = probe.Fail, "apply the output of: calico-probe manifests --methods exec --calico-namespace calico-system"
		}
		if r := ev.Result; r.Status != want || !strings.HasSuffix(r.Saw, says) {
			t.Errorf("%s: %s %s", ev.Method, r.Status, r.Saw)
		}
	}
}

// TestShellRehearsed requires a dry run of the pod of 'sh' too, and a result that names the namespace. The API server
// is a stand-in.
func TestShellRehearsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method  string
		refuses func(corev1.Pod) string // and why
		status  probe.Status
		says    string
		pods    int
		jobs    string // the namespace in the review of the clean-up job
	}{
		"admitted": {method: useShell, refuses: func(corev1.Pod) string { return "" }, status: probe.OK, says: "a pod in namespace kube-system is admitted, and so is the privileged pod of 'sh' in namespace kube-system", pods: 2, jobs: "kube-system"},
		"no privileged one": {method: useShell, refuses: func(pod corev1.Pod) string {
			if sc := pod.Spec.Containers[0].SecurityContext; sc.Privileged != nil && *sc.Privileged {
				return "denied by somebody's policy"
			}
			return ""
		}, status: probe.Fail, says: "the privileged pod of 'sh': the cluster's policy refuses the probe", pods: 3},
		"a probe's alone": {method: injector.MethodPod, refuses: func(corev1.Pod) string { return "" }, status: probe.OK, says: "a pod in namespace kube-system is admitted", pods: 1, jobs: "kube-system"},
		"elsewhere": {method: injector.MethodPod, refuses: func(pod corev1.Pod) string {
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
		writer := must.Get(injector.NewClient(&rest.Config{Host: server.URL,
			ContentConfig: rest.ContentConfig{ContentType: "application/json"}}))(t)
		p := of(t, "", &examine.Recorder{})
		p.writer, p.snap = writer, &cluster.Snapshot{Node: &corev1.Node{}}
		found := p.ofMethod(t.Context(), c.method)
		server.Close()
		if r := found[0].Result; r.Status != c.status || !strings.HasPrefix(r.Saw, c.says) ||
			pods != c.pods || jobs != c.jobs {
			t.Errorf("%s: %s %s, %d pods, job in %q", name, r.Status, r.Saw, pods, jobs)
		}
	}
}

// TestPreflightOfEachMethod requires a result for each use that places a probe, besides its rights.
func TestPreflightOfEachMethod(t *testing.T) {
	t.Parallel()
	config := &rest.Config{Host: "https://127.0.0.1:1"} // a closed port
	reader := must.Get(cluster.NewClient(config, ""))(t)
	writer := must.Get(injector.NewClient(config))(t)
	p := of(t, "", &examine.Recorder{})
	p.reader, p.writer, p.snap = reader, writer, &cluster.Snapshot{Node: &corev1.Node{}}
	for _, method := range append(injector.FallbackNames(), injector.MethodOutside, injector.MethodKubelet, useShell) {
		if len(p.ofMethod(t.Context(), method)) == 0 {
			t.Errorf("access method %s: ofMethod in internal/preflight/methods.go says nothing of what it needs", method)
		}
		if p.awaited(method) == method {
			t.Errorf("access method %s: awaited in internal/preflight/methods.go does not say what it waits for", method)
		}
	}
}

// TestEnterable requires the first container that the user may enter, or else the missing right and its namespace.
func TestEnterable(t *testing.T) {
	t.Parallel()
	targets := []string{"calico-system/calico-node-x/calico-node", "kube-system/kube-proxy-y/kube-proxy"}
	for want, c := range map[string]struct {
		may    []bool
		status probe.Status
	}{
		"container calico-system/calico-node-x/calico-node exists; shell untested":                                                                                {[]bool{true, true}, probe.Unknown},
		"container kube-system/kube-proxy-y/kube-proxy exists; shell untested":                                                                                    {[]bool{false, true}, probe.Unknown},
		"create pods/exec in namespace calico-system or kube-system: apply the output of: calico-probe manifests --methods exec --calico-namespace calico-system": {[]bool{false, false}, probe.Fail},
	} {
		if r := enterable(targets, c.may); r.Status != c.status || !strings.Contains(r.Saw, want) {
			t.Errorf("%v: %s %s", c.may, r.Status, r.Saw)
		}
	}
}

// TestMissingNamespace requires that a missing namespace of -n is a fault, because a run would end there, even if all
// else works.
func TestMissingNamespace(t *testing.T) {
	t.Parallel()
	missing := &injector.PlacementError{
		Reason: facts.ReasonNamespace, Text: "not found",
		Err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "nosuchns"),
	}
	if r := rehearsed(missing, ""); r.Status != probe.Fail || !strings.HasPrefix(r.Saw, `namespace "nosuchns" does not exist; `) {
		t.Errorf("%+v", r)
	}
	// One access method that works is enough, unless a run would end before it.
	for named, want := range map[string]error{"nosuchns": ui.Exit(report.ExitFault), "": nil} {
		p := of(t, named, &examine.Recorder{})
		p.add(injector.MethodPod, askAdmission, rehearsed(missing, ""))
		if err := p.conclude([]string{injector.MethodPod, injector.MethodExec}); err != want {
			t.Errorf("preflight -n %q: %v", named, err)
		}
	}
}

// of returns a Preflight of node-a with this namespace in -n.
func of(t *testing.T, namespace string, sink report.Sink) *Preflight {
	t.Helper()
	noProbe := func(string) []byte { return nil }
	nobody := func() (*rest.Config, error) { return &rest.Config{Host: "https://127.0.0.1:1"}, nil }
	client := examine.NewClient(examine.Config{Namespace: namespace, Probe: noProbe, Rest: nobody}, io.Discard)
	opts := examine.Options{
		Node: "node-a", Profile: string(probe.Standard), FailOn: examine.FailOnFail, Image: probe.Image, Timeout: time.Minute,
	}
	p := must.Get(New(client, opts, nil))(t)
	p.run = must.Get(examine.New(client, p.opts, sink))(t)
	return p
}

// TestWhose requires the manifest for this user.
func TestWhose(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]string{
		"jane": " --user=jane", "oidc:jane doe": " --user='oidc:jane doe'", "": "", "system:anonymous": "",
		"system:serviceaccount:ops:oncall": " --service-account=ops:oncall",
	} {
		if got := probe.UserFlag(user); got != want {
			t.Errorf("%q: %q, want %q", user, got, want)
		}
	}
	lacks := []install.Right{{Groups: []string{""}, Verb: "create", Resource: "pods"}}
	r := missing("pod", " --user=jane", lacks, func(install.Scope) string { return "debug" })
	if r.Status != probe.Fail || !strings.Contains(r.Saw, "calico-probe manifests --methods pod --user=jane") {
		t.Errorf("%s %s", r.Status, r.Saw)
	}
}
