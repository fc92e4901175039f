//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/calico-probe/calico-probe/internal/install"
	"github.com/calico-probe/calico-probe/probe"
)

// altering has the API server change what is created until the test ends.
func altering(t testing.TB, group, resource, operation, condition, patch string) {
	t.Helper()
	const name = "e2e-alters"
	spec := fmt.Sprintf(`
failurePolicy: Fail
reinvocationPolicy: Never
matchConstraints:
  resourceRules: [{apiGroups: [%q], apiVersions: [v1], operations: [%s], resources: [%q]}]
matchConditions: [{name: ours, expression: %q}]
mutations: [{patchType: JSONPatch, jsonPatch: {expression: %q}}]
`, group, operation, resource, condition, patch)
	policy := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &policy.Spec); err != nil {
		t.Fatal(err)
	}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: policy.ObjectMeta}
	binding.Spec.PolicyName = name
	r := kube(t).AdmissionregistrationV1()
	t.Cleanup(func() {
		bindingErr := r.MutatingAdmissionPolicyBindings().Delete(context.Background(), name, metav1.DeleteOptions{})
		policyErr := r.MutatingAdmissionPolicies().Delete(context.Background(), name, metav1.DeleteOptions{})
		if err := errors.Join(bindingErr, policyErr); err != nil {
			t.Error(err)
		}
		eventually(t, 30*time.Second, func() string { // it is in force for a moment yet
			if a := call(t, "run", "--node", "node-b", "--via", "pod", "--checks", "node-swap"); a.exit != 0 {
				return a.stdout + a.stderr
			}
			return ""
		})
	})
	if _, err := r.MutatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.MutatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// preflighted requires an exit code and a text from preflight with pod and ephemeral container. It returns the
// difference.
func preflighted(t testing.TB, exit int, says string, ways ...string) string {
	t.Helper()
	a := call(t, "preflight", "--node", "node-b", "--via", strings.Join(append(ways, "pod"), ","))
	if a.exit != exit || !strings.Contains(a.folded(), says) {
		return fmt.Sprintf("preflight: exit %d, want %d with %q: %s%s", a.exit, exit, says, a.stdout, a.stderr)
	}
	return ""
}

// What the policy changes: all our objects, or only those outside a dry run, as a webhook may do.
const (
	onlyOurs   = "object.metadata.name.startsWith('calico-probe-')"
	undeclared = onlyOurs + " && !request.dryRun"
)

const offNetwork = `[JSONPatch{op: "remove", path: "/spec/hostNetwork"}]`

// TestAlteredPod has a cluster policy change the probe's pod. The run must name the field, create nothing, evict no
// pod, and use another access method.
func TestAlteredPod(t *testing.T) {
	nothingLeft(t) // of the tests before: what is looked for below is this one's
	fill(t, "node-b")
	for name, c := range map[string]struct{ patch, says string }{
		"network": {offNetwork, "spec.hostNetwork is false instead of true"},
		"sidecar": {
			`[JSONPatch{op: "add", path: "/spec/containers/-", ` +
				`value: Object.spec.containers{name: "spy", image: "sandbox.local/workload:1"}}]`,
			`spec.containers is ["probe","spy"] instead of ["probe"]`,
		},
		"image": {
			`[JSONPatch{op: "replace", path: "/spec/containers/0/image", ` +
				`value: "mirror.local/" + object.spec.containers[0].image}]`,
			`image is "mirror.local/` + probe.Image + `" instead of "` + probe.Image +
				`"; if that is the same image, specify it with --image`,
		},
		"priority": {
			`[JSONPatch{op: "add", path: "/spec/priorityClassName", value: "system-node-critical"}, ` +
				`JSONPatch{op: "replace", path: "/spec/priority", value: 2000001000}, ` +
				`JSONPatch{op: "replace", path: "/spec/containers/0/resources/requests/cpu", value: "100m"}]`,
			"spec.priority is 2000001000: the kubelet would evict other pods for it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			altering(t, "", "pods", "CREATE", onlyOurs, c.patch)
			eventually(t, 30*time.Second, func() string { return preflighted(t, 3, c.says) })
			unchanged(t)
			d, a := report(t, "run", "--node", "node-b", "--via", "pod", "-n", "kube-system")
			if a.exit != 5 {
				t.Errorf("exit %d\n%s", a.exit, a.stderr)
			}
			d.want(t, "probe-placed", probe.Unknown, "pod: the cluster's policy changed the created object: ", c.says)
			d.saidNothing(t, "pod")
			if l := left(t); l != "" {
				t.Errorf("something was made: %s", l)
			}
			d, a = report(t, "run", "--node", "node-b", "--skip", "node-load", "-n", "kube-system")
			if a.exit == 1 || a.exit == 2 { // a loaded machine may have a fault of its own
				t.Errorf("by auto: exit %d: %v\n%s", a.exit, d.Results, a.stderr)
			}
			d.want(t, "probe-placed", probe.Info, "pod: ", c.says)
			d.want(t, "probe-placed", probe.OK, "ephemeral: ")
			nothingLeft(t)
		})
	}
}

// saidNothing requires that no probe answer is used.
func (d document) saidNothing(t testing.TB, way string) {
	t.Helper()
	for _, r := range d.Results {
		if r.Method == way && r.Check != "probe-placed" {
			t.Errorf("an answer of what was altered is believed: %v", r)
		}
	}
}

// TestAlteredUnrehearsed has the policy change only the real pod, not the dry run. The run deletes the pod at once, and
// uses none of its results.
func TestAlteredUnrehearsed(t *testing.T) {
	slow(t)
	altering(t, "", "pods", "CREATE", undeclared, offNetwork)
	unchanged(t)
	var d document
	eventually(t, 30*time.Second, func() string {
		var a answer
		if d, a = report(t, "run", "--node", "node-b", "--via", "pod", "-n", "kube-system"); a.exit != 5 {
			return fmt.Sprintf("exit %d: %v\n%s", a.exit, d.Results, a.stderr)
		}
		return ""
	})
	if l := left(t); strings.Contains(l, "pod ") || strings.Contains(l, "job ") {
		t.Errorf("not removed: %s", l)
	}
	d.want(t, "probe-placed", probe.Unknown, "spec.hostNetwork is false instead of true; so the probe does not get a request")
	d.saidNothing(t, "pod")
}

// TestAlteredEphemeral is the same with an ephemeral container in calico-node's pod, which cannot be removed: if a dry
// run shows the change, the run does not create it.
func TestAlteredEphemeral(t *testing.T) {
	slow(t)
	const (
		says  = `its image is "sandbox.local/workload:1" instead of "` + probe.Image + `"`
		patch = `[JSONPatch{op: "replace", path: "/spec/ephemeralContainers/0/image", value: "sandbox.local/workload:1"}]`
	)
	calico := func() *corev1.Pod {
		for _, p := range podsOn(t, "node-b") {
			if p.Labels["k8s-app"] == "calico-node" {
				return &p
			}
		}
		t.Fatal("there is no calico-node")
		return nil
	}
	t.Run("rehearsed", func(t *testing.T) {
		altering(t, "", "pods/ephemeralcontainers", "UPDATE", "true", patch)
		eventually(t, 30*time.Second, func() string { return preflighted(t, 3, says, "ephemeral") })
		unchanged(t)
		before := len(calico().Spec.EphemeralContainers)
		d, a := report(t, "run", "--node", "node-b", "--via", "ephemeral")
		if a.exit != 5 || len(calico().Spec.EphemeralContainers) != before {
			t.Errorf("exit %d, %d containers, before %d\n%s", a.exit, len(calico().Spec.EphemeralContainers), before, a.stderr)
		}
		d.want(t, "probe-placed", probe.Unknown, "ephemeral: ", says)
		d.saidNothing(t, "ephemeral")
	})
	t.Run("not rehearsed", func(t *testing.T) {
		altering(t, "", "pods/ephemeralcontainers", "UPDATE", "!request.dryRun", patch)
		t.Cleanup(func() { // it is in that pod for good, and runs: a new pod has no such container
			pods := kube(t).CoreV1().Pods("kube-system")
			if err := pods.Delete(context.Background(), calico().Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			calicoReady(t, "node-b")
		})
		unchanged(t)
		var d document
		var a answer
		eventually(t, 30*time.Second, func() string {
			if d, a = report(t, "run", "--node", "node-b", "--via", "ephemeral"); a.exit != 5 {
				return fmt.Sprintf("exit %d: %v\n%s", a.exit, d.Results, a.stderr)
			}
			return ""
		})
		d.want(t, "probe-placed", probe.Unknown, "ephemeral: ", says, "so the probe does not get a request")
		d.saidNothing(t, "ephemeral")
		if !strings.Contains(a.stderr, "cannot be removed from pod kube-system/calico-node-") {
			t.Error(a.stderr)
		}
	})
}

// TestAlteredJob has the clean-up job suspended, as job queues do. It would never end, so the run deletes it and
// reports that.
func TestAlteredJob(t *testing.T) {
	slow(t)
	altering(t, "batch", "jobs", "CREATE", onlyOurs, `[JSONPatch{op: "add", path: "/spec/suspend", value: true}]`)
	eventually(t, 30*time.Second, func() string { return preflighted(t, 0, "spec.suspend is true instead of false") })
	d, a := report(t, "run", "--node", "node-b", "--via", "pod", "--skip", "node-load")
	const says = "no clean-up job (the cluster's policy changed the created object: spec.suspend is true instead of false)"
	if a.exit != 0 || !strings.Contains(a.stderr, says) {
		t.Errorf("exit %d\n%s", a.exit, a.stderr)
	}
	d.want(t, "probe-placed", probe.OK, "pod: ")
	eventually(t, time.Minute, func() string { return left(t) })
}

// TestAppArmor requires that the annotation for Kubernetes before 1.30 does no harm on later versions.
func TestAppArmor(t *testing.T) {
	slow(t)
	cmd, out := started(t, nil, "run", "--node", "node-b", "--via", "pod", "-o", "ndjson")
	waitFor(t, out, `"way":"pod"`)
	pods, err := kube(t).CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/managed-by=calico-probe",
	})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("%v %d pods", err, len(pods.Items))
	}
	p := pods.Items[0]
	if got := p.Annotations["container.apparmor.security.beta.kubernetes.io/probe"]; got != "unconfined" {
		t.Errorf("the annotation is %q", got)
	}
	got := p.Spec.Containers[0].SecurityContext.AppArmorProfile
	if got == nil || got.Type != corev1.AppArmorProfileTypeUnconfined {
		t.Errorf("the field is %v", got)
	}
	waitFor(t, out, `"type":"verdict"`)
	_ = cmd.Wait()
	nothingLeft(t)
}

// TestQuotas has real quotas and limit ranges refuse the probe's pod. The run must use the next namespace or access
// method.
func TestQuotas(t *testing.T) {
	slow(t)
	for name, c := range map[string]struct{ limit, quota, says string }{
		"min":    {"type: Container, min: {cpu: 100m}", "", "minimum cpu usage per Container is 100m, but request is 0"},
		"max":    {"type: Container, max: {memory: 64Mi}", "", "maximum memory usage per Container is 64Mi, but limit is "},
		"pod":    {`type: Pod, max: {cpu: "1"}`, "", "maximum cpu usage per Pod is 1."},
		"ratio":  {`type: Container, maxLimitRequestRatio: {memory: "2"}`, "", "memory max limit to request ratio per Container is 2"},
		"must":   {"", `limits.cpu: "1"`, "failed quota: e2e: must specify limits.cpu for: probe"},
		"memory": {"", "limits.memory: 100Mi", "exceeded quota: e2e, requested: limits.memory=512Mi"},
		"pods":   {"", `pods: "0"`, "exceeded quota: e2e, requested: pods=1"},
	} {
		t.Run(name, func(t *testing.T) {
			ns := "e2e-quota-" + name
			admitting(t, ns)
			limited(t, ns, c.limit, c.quota)
			var d document
			var a answer
			eventually(t, 30*time.Second, func() string { // a new one is not in force at once
				if d, a = report(t, "run", "--node", "node-b", "--via", "pod", "-n", ns, "--checks", "node-swap"); a.exit != 5 {
					return fmt.Sprintf("exit %d: %v\n%s", a.exit, d.Results, a.stderr)
				}
				if saw := d.way("pod").Saw; strings.Contains(saw, "status unknown for quota") || !strings.Contains(saw, c.says) {
					return saw
				}
				return ""
			})
			reason := d.way("pod").Facts.Str(probe.FactReason)
			if reason != "quota" || len(d.Causes) == 0 || d.Causes[0].ID != "probe-quota" {
				t.Errorf("%s %v", reason, d.Causes)
			}
			t.Log(d.way("pod").Saw)
		})
	}
	t.Run("the next namespace", func(t *testing.T) {
		admitting(t, install.Namespace)
		limited(t, "kube-system", "type: Container, min: {cpu: 1m}", "")
		eventually(t, 30*time.Second, func() string {
			if a := call(t, "preflight", "--node", "node-b", "--via", "pod", "-n", "kube-system"); a.exit != 3 {
				return a.stdout
			}
			return ""
		})
		d, a := report(t, "run", "--node", "node-b", "--skip", "node-load")
		const says = "namespace kube-system rejects it (quota), so it goes into calico-probe"
		if a.exit != 0 || !strings.Contains(a.stderr, says) {
			t.Errorf("exit %d: %v\n%s", a.exit, d.Results, a.stderr)
		}
		d.want(t, "probe-placed", probe.OK, "pod: ", "pod calico-probe/calico-probe-node-b-")
		d, a = report(t, "run", "--node", "node-b", "--skip", "node-load", "-n", "kube-system")
		if a.exit != 0 {
			t.Errorf("by auto: exit %d: %v\n%s", a.exit, d.Results, a.stderr)
		}
		d.want(t, "probe-placed", probe.Info, "pod: ", "minimum cpu usage per Container is 1m, but request is 0")
		d.want(t, "probe-placed", probe.OK, "ephemeral: ")
	})
	nothingLeft(t)
}

// limited gives a namespace a LimitRange, or a ResourceQuota, until the test ends.
func limited(t testing.TB, ns, limit, hard string) {
	t.Helper()
	const name = "e2e"
	core, meta := kube(t).CoreV1(), metav1.ObjectMeta{Name: name}
	var err error
	remove := core.LimitRanges(ns).Delete
	if limit != "" {
		object := &corev1.LimitRange{ObjectMeta: meta, Spec: corev1.LimitRangeSpec{Limits: make([]corev1.LimitRangeItem, 1)}}
		if err := yaml.UnmarshalStrict([]byte("{"+limit+"}"), &object.Spec.Limits[0]); err != nil {
			t.Fatal(err)
		}
		_, err = core.LimitRanges(ns).Create(t.Context(), object, metav1.CreateOptions{})
	} else {
		object := &corev1.ResourceQuota{ObjectMeta: meta}
		if err := yaml.UnmarshalStrict([]byte("{"+hard+"}"), &object.Spec.Hard); err != nil {
			t.Fatal(err)
		}
		_, err = core.ResourceQuotas(ns).Create(t.Context(), object, metav1.CreateOptions{})
		remove = core.ResourceQuotas(ns).Delete
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// admitting makes a namespace that admits privileged pods, where it is not there, and has it gone
// with the test.
func admitting(t testing.TB, name string) {
	t.Helper()
	namespaces := kube(t).CoreV1().Namespaces()
	if _, err := namespaces.Get(t.Context(), name, metav1.GetOptions{}); err == nil {
		return
	}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	object.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}
	if _, err := namespaces.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := namespaces.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	eventually(t, time.Minute, func() string { // before, it refuses every pod for another reason
		if _, err := kube(t).CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}
