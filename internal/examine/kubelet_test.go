package examine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/kubeletproxy"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// TestKubeletsWay asks a kubelet through an API server, with the user's credentials, which go nowhere else.
func TestKubeletsWay(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect was followed")
	}))
	defer elsewhere.Close()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ours := strings.CutPrefix(r.URL.Path, "/behind/api/v1/nodes/node-b/proxy")
		switch {
		case !ours || r.Header.Get("Authorization") != "Bearer abc":
			t.Errorf("%s with %q", r.URL.Path, r.Header.Get("Authorization"))
		case path == "/healthz":
			fmt.Fprint(w, "ok")
		default:
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		}
	}))
	defer api.Close()
	config := Config{Rest: func() (*rest.Config, error) {
		return &rest.Config{Host: api.URL + "/behind", BearerToken: "abc"}, nil
	}}
	opts := Options{Node: "node-b", Via: injector.MethodKubelet, Profile: string(probe.Standard), FailOn: FailOnFail,
		Image: probe.Image, Timeout: time.Minute, Baselines: 1}
	run, err := New(NewClient(config, t.Output()), opts, report.SinkFunc(func(probe.Event) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	if run.ProvesEncap(nil) || len(run.Capabilities()) > 0 || !slices.Contains(run.NodeChecks(), logs.DaemonLog.ID) ||
		slices.ContainsFunc(run.picked, link.NeighbourReach.Is) ||
		!slices.Contains(CheckIDs(run.picked), facts.CheckPodsStart) {
		t.Errorf("it asks %v", CheckIDs(run.picked))
	}
	methods, err := run.methods()
	if err != nil || len(methods) != 1 || methods[0].Name != injector.MethodKubelet {
		t.Fatal(methods, err)
	}
	session, err := methods[0].Open(t.Context(), injector.Options{})
	if err != nil {
		t.Fatal(err)
	}
	answered := map[string]probe.Status{}
	plan := run.Plan(injector.MethodKubelet, nil)
	err = session.Ask(t.Context(), probe.Request{Type: probe.RequestPlan, Plan: &plan}, func(ev probe.Event) bool {
		if ev.Result != nil {
			answered[ev.Result.Check] = ev.Result.Status
		}
		return true
	})
	if err != nil || len(answered) != len(run.NodeChecks()) || answered[kubelet.KubeletHealth.ID] != probe.OK ||
		answered[host.NodeSwap.ID] != probe.Unknown {
		t.Errorf("%v, %v", answered, err)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}

// TestUngreeted requires a reason for a kubelet that cannot be queried, and a fix if a right is missing.
func TestUngreeted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		reason facts.Reason
		says   string
	}{
		"no right": {&kubeletproxy.KubeletError{Code: 403, ByAPI: true}, facts.ReasonRBAC, "manifests --methods kubelet"},
		"no login": {&kubeletproxy.KubeletError{Code: 401, ByAPI: true}, facts.ReasonAPI, "rejects the request"},
		"refused": {&kubeletproxy.KubeletError{Code: 503, ByAPI: true, Text: "dial tcp 10.0.0.2:10250: connect: connection refused"},
			facts.ReasonAttach, "connection refused"},
		"the API server's own right": {&kubeletproxy.KubeletError{Code: 403, Text: "403 to /healthz: Forbidden (user=kube-apiserver"},
			facts.ReasonAttach, "kube-apiserver"},
		"silent":  {fmt.Errorf("no answer to /healthz: %w", context.DeadlineExceeded), facts.ReasonSilent, "does not answer"},
		"no line": {errors.New("connection refused"), facts.ReasonAPI, "connection refused"},
	} {
		if pe := Ungreeted(c.err); pe.Reason != c.reason || !strings.Contains(pe.Text, c.says) || !errors.Is(pe, c.err) {
			t.Errorf("%s: %s, %s", name, pe.Reason, pe.Text)
		}
	}
}
