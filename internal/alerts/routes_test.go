package alerts

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/calico-probe/calico-probe/probe/must"
)

func TestParseRoutes(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: calico-probe.io/v1alpha1\nkind: AlertRoutes\n"
	for text, want := range map[string]string{
		"":                    `is "" of ""`,
		"kind: AlertRoutes\n": `is "AlertRoutes" of ""`,
		head:                  "",
		head + "spec: {routes: [{match: ['a=\"b\"'], profile: quick, extra: 1}]}":                                                      `unknown field "extra"`,
		head + "spec: {routes: [{profile: quick}]}":                                                                                    "route 1: match is empty",
		head + "spec: {routes: [{match: ['alertname'], profile: quick}]}":                                                              `route 1: matcher "alertname"`,
		head + "spec: {routes: [{match: ['a=~\"(\"'], profile: quick}]}":                                                               `route 1: matcher "a=~\"(\""`,
		head + "spec: {routes: [{match: ['a=\"b\"']}]}":                                                                                "set exactly one of runbook, profile and many",
		head + "spec: {routes: [{match: ['a=\"b\"'], profile: quick, runbook: r}]}":                                                    "set exactly one of runbook, profile and many",
		head + "spec: {routes: [{match: ['a=\"b\"'], runbook: other}]}":                                                                `unknown runbook "other": use one of r`,
		head + "spec: {routes: [{match: ['a=\"b\"'], profile: other}]}":                                                                `unknown profile "other": use one of quick`,
		head + "spec: {routes: [{match: ['a=\"b\"'], profile: quick}, {match: ['a!=\"b\"', 'c=~\"d|e\"'], runbook: r, node: [host]}]}": "",
	} {
		_, err := ParseRoutes([]byte(text), []string{"r"}, []string{"quick"})
		if (err == nil) != (want == "") || err != nil &&
			(!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s\n%v, want %q", text, err, want)
		}
	}
}

// TestLimits requires defaults for missing limits, and rejects limits that would prevent all work.
func TestLimits(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: calico-probe.io/v1alpha1\nkind: AlertRoutes\nspec: {limits: {"
	r, err := ParseRoutes([]byte(head+"workers: 4, cooldown: 1h, runTimeout: 90s}}"), nil, nil)
	want := DefaultLimits()
	want.Workers, want.Cooldown, want.Run = 4, time.Hour, 90*time.Second
	if err != nil || r.Spec.Limits != want {
		t.Errorf("%+v, %v", r.Spec.Limits, err)
	}
	for text, want := range map[string]string{
		"workers: 0": "workers, queue and runsPerHour must be 1", "queue: x": "cannot unmarshal string", "cooldown: -1s": "must not be negative", "peers: -1": "must not be negative",
		"jobTimeout: 1s": "jobTimeout must be 10s", "runTimeout: 1ms": "runTimeout must be 1s",
		"cooldown: 15": `15 is not a duration`, "worker: 1": `unknown field "worker"`,
	} {
		if _, err := ParseRoutes([]byte(head+text+"}}"), nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestLimitsDocumented compares the limits in docs/alerts.md with the defaults.
func TestLimitsDocumented(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(b), "<!-- limits -->\n```yaml\n")
	shown, _, _ = strings.Cut(shown, "```")
	_, limits, _ := strings.Cut(shown, "limits:\n")
	var fields map[string]any
	must.Do(t, yaml.Unmarshal([]byte(limits), &fields))
	r, err := ParseRoutes([]byte(shown), nil, nil)
	if err != nil || r.Spec.Limits != DefaultLimits() || len(fields) != reflect.TypeFor[Limits]().NumField() {
		t.Errorf("%d fields, %+v, %v", len(fields), r.Spec.Limits, err)
	}
}

// TestTarget requires the node that an alert is about, and none if that is uncertain.
func TestTarget(t *testing.T) {
	t.Parallel()
	c := Cluster{
		Node: func(_ context.Context, name string) (string, error) {
			if name == "broken" {
				return "", errors.New("no answer")
			}
			return map[string]string{"worker-1": "worker-1", "10.0.0.1": "worker-1", "fd00::2": "worker-2"}[name], nil
		},
		PodNode: func(_ context.Context, namespace, pod string) (string, error) {
			return map[string]string{"shop/web": "worker-2"}[namespace+"/"+pod], nil
		},
	}
	routes := must.Get(ParseRoutes([]byte(`apiVersion: calico-probe.io/v1alpha1
kind: AlertRoutes
spec:
  routes:
  - {match: ['alertname="Own"'], profile: quick, node: [host]}
  - {match: ['alertname=~"Kube.*"', 'severity!="info"'], runbook: first}
  - {match: ['alertname="KubeNodeNotReady"'], runbook: second}
`), []string{"first", "second"}, []string{"quick"}))(t)
	ofCalico := must.Get(labels.ParseMatchers(`{namespace=~"kube-system|calico-system",pod=~"calico-node-.*"}`))(t)
	built := must.Get(RoutesFor([]Answer{
		{`odd"name`, nil, "r"}, {"KubePodCrashLooping", ofCalico, "crashloop"}, {"KubePodCrashLooping", nil, "later"},
	}))(t)
	kube := func(labels ...string) map[string]string {
		out := map[string]string{"alertname": "KubeNodeNotReady"}
		for i := 0; i < len(labels); i += 2 {
			out[labels[i]] = labels[i+1]
		}
		return out
	}
	for name, c1 := range map[string]struct {
		routes     Routes
		labels     map[string]string
		what, node string
		why        string
	}{
		"by name":            {routes, kube("node", "worker-1"), "first", "worker-1", ""},
		"the second route":   {routes, kube("node", "worker-1", "severity", "info"), "second", "worker-1", ""},
		"by address":         {routes, kube("instance", "10.0.0.1:9100"), "first", "worker-1", ""},
		"by an IPv6 address": {routes, kube("instance", "[fd00::2]:9100"), "first", "worker-2", ""},
		"without a port":     {routes, kube("instance", "fd00::2"), "first", "worker-2", ""},
		"by its pod": {routes, kube("namespace", "shop", "pod", "web", "instance", "10.0.0.1:8080"), "first",
			"worker-2", ""},
		"a pod that is gone": {routes, kube("namespace", "shop", "pod", "old", "instance", "10.0.0.1:9100"), "first",
			"worker-1", ""},
		"a pod of nowhere":    {routes, kube("pod", "web", "instance", "10.0.0.1:9100"), "first", "worker-1", ""},
		"only a pod, gone":    {routes, kube("namespace", "shop", "pod", "old"), "first", "", "pod shop/old does not exist"},
		"a node that is gone": {routes, kube("node", "worker-9", "instance", "10.0.0.1:8080"), "first", "", `no node has the name or address "worker-9"`},
		"a label of one's own": {routes, map[string]string{"alertname": "Own", "host": "worker-1"}, "run-quick",
			"worker-1", ""},
		"only other labels":     {routes, map[string]string{"alertname": "Own", "node": "worker-1"}, "run-quick", "", "no label that identifies a node: host"},
		"no label":              {routes, kube(), "first", "", "no label that identifies"},
		"no route":              {routes, map[string]string{"alertname": "Watchdog"}, "", "", "no route matches"},
		"the cluster is silent": {routes, kube("node", "broken"), "first", "", "no answer"},
		"a pod of Calico": {built, map[string]string{
			"alertname": "KubePodCrashLooping", "namespace": "kube-system", "pod": "calico-node-x7", "node": "worker-1",
		}, "crashloop", "worker-1", ""},
		"a pod of a tenant": {built, map[string]string{
			"alertname": "KubePodCrashLooping", "namespace": "shop", "pod": "calico-node-x7", "node": "worker-1",
		}, "later", "worker-1", ""},
		"a name in another": {built, map[string]string{"alertname": "KubePodCrashLoopingToo", "node": "worker-1"}, "", "",
			"no route matches"},
		"a runbook's own": {built, map[string]string{"alertname": `odd"name`, "node": "worker-1"}, "r", "worker-1", ""},
	} {
		what, node, err := c1.routes.target(t.Context(), c, c1.labels)
		if node != c1.node || (err == nil) != (c1.why == "") || err != nil && !strings.Contains(err.Error(), c1.why) {
			t.Errorf("%s: %s on %q, %v", name, what, node, err)
		}
		if c1.what != "" && what.String() != c1.what {
			t.Errorf("%s: %s, want %s", name, what, c1.what)
		}
		if _, is := errors.AsType[unmapped](err); err != nil && is == (name == "the cluster is silent") {
			t.Errorf("%s: %T", name, err)
		}
	}
}

// TestOdd requires the valid alerts of a notification to be accepted beside invalid ones.
func TestOdd(t *testing.T) {
	t.Parallel()
	l := nodesOf(1)
	s := opened(t, t.TempDir(), usual, l)
	long := firing("node-0", "long")
	long.Labels["note"] = strings.Repeat("x", maxLabelBytes)
	other := firing("node-0", "other")
	other.Status = "pending"
	many := firing("node-0", "many")
	for i := range maxLabels {
		many.Labels[strings.Repeat("l", i+1)] = ""
	}
	never := firing("node-0", "never")
	never.StartsAt = time.Time{}
	bare := sent{Status: statusFiring, StartsAt: since}
	unmarked := firing("node-0", "")
	code := post(t, s, body(t, long, other, many, never, bare, firing("node-0", "good"), unmarked, unmarked))
	if code != 200 {
		t.Errorf("answered %d", code)
	}
	wantCounts(t, s, map[string]int{outcomeUnmapped: 5, outcomeQueued: 1, outcomeSame: 2})
	for i, want := range []string{
		"its labels have", "neither firing nor resolved", "66 labels", "no start time", "no labels",
	} {
		if i >= len(s.unmapped) || !strings.Contains(s.unmapped[i].Reason, want) {
			t.Errorf("unmapped %+v, want %q", s.unmapped, want)
		}
	}
	if job := s.jobs[s.order[0]]; len(job.Alerts) != 2 || len(job.Alerts[1].Fingerprint) != 16 {
		t.Errorf("the job is for %+v", job.Alerts)
	}
}

// FuzzParse parses any bytes as a notification: the result stays within the limits.
func FuzzParse(f *testing.F) {
	f.Add(body(f, firing("node-0", "a"), firing("node-1", "")))
	f.Add([]byte(`{"version":"4","truncatedAlerts":-1,"alerts":[{"status":"resolved","labels":{"":"\ud800"},"startsAt":"2026-11-01T00:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := parse(b)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("refused without a word")
			}
			return
		}
		if len(n.alerts) == 0 || len(n.alerts) > maxNotified || n.truncated < 0 {
			t.Errorf("%d alerts, %d truncated", len(n.alerts), n.truncated)
		}
		for _, a := range n.alerts {
			if a.Fingerprint == "" || len(a.Fingerprint) > maxFingerprint ||
				a.odd == "" && (len(a.Labels) == 0 || len(a.Labels) > maxLabels) {
				t.Errorf("%+v", a)
			}
		}
	})
}
