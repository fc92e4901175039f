//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// others is every object on the cluster that is not ours, by its name, and what of it a
// run must not change. It is compared before and after everything the client can do.
type others struct {
	objects map[string]string
	known   map[types.UID]bool
	taken   time.Time
}

// moving are the resources that Kubernetes itself rewrites all the time, and in which a
// run therefore leaves no trace that could be told from that: heartbeats, and events,
// which harmed reads by themselves.
var moving = []string{"leases", "events", "componentstatuses"}

// unchanged records the cluster's objects, and compares them after the test, before the test's own clean-up.
func unchanged(t testing.TB) {
	t.Helper()
	eventually(t, time.Minute, func() string { // what the tests before have deleted goes by itself
		all, err := kube(t).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, n := range all.Items {
			if n.DeletionTimestamp != nil {
				return "namespace " + n.Name + " is still being deleted"
			}
		}
		return ""
	})
	before := readOthers(t)
	t.Cleanup(func() { before.compare(t) })
}

// compare requires that every foreign object is unchanged, that none was created or deleted, and that no event reports
// a killed or evicted pod.
func (before others) compare(t testing.TB) {
	t.Helper()
	eventually(t, 60*time.Second, func() string { return left(t) }) // ours, which may still be ending
	changed := before.changed(readOthers(t))
	list, err := kube(t).CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	changed = append(changed, before.harmed(list.Items)...)
	if len(changed) > 0 {
		t.Errorf("the client changed what is not its own:\n%s", strings.Join(changed, "\n"))
	}
}

// changed lists the objects that are not as they were, are gone, or are new.
func (before others) changed(after others) (changed []string) {
	for _, name := range slices.Sorted(maps.Keys(before.objects)) {
		now, there := after.objects[name]
		switch {
		case !there:
			changed = append(changed, name+" is gone")
		case now != before.objects[name]:
			changed = append(changed, fmt.Sprintf("%s was changed:\n  before %s\n  now    %s", name, before.objects[name], now))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after.objects)) {
		if _, there := before.objects[name]; !there {
			changed = append(changed, name+" is new and not ours: "+after.objects[name])
		}
	}
	return changed
}

// harmed picks the events since then by which the kubelet or the scheduler ended or moved
// one of the objects.
func (before others) harmed(events []corev1.Event) []string {
	var out []string
	for _, e := range events {
		bad := slices.Contains([]string{
			"Preempting", "Preempted", "Killing", "Evicted", "TaintManagerEviction", "NodeControllerEviction",
		}, e.Reason)
		last := e.LastTimestamp.Time
		if last.IsZero() {
			last = e.EventTime.Time
		}
		// Events have whole seconds.
		if bad && before.known[e.InvolvedObject.UID] && last.After(before.taken.Add(-time.Second)) {
			out = append(out, fmt.Sprintf("event %s about %s %s/%s: %s", e.Reason, e.InvolvedObject.Kind,
				e.InvolvedObject.Namespace, e.InvolvedObject.Name, e.Message))
		}
	}
	return out
}

func readOthers(t testing.TB) others {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 100, 200
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	resources, err := disco.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	o := others{objects: map[string]string{}, known: map[types.UID]bool{}, taken: time.Now()}
	for _, group := range resources {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range group.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains(moving, r.Name) {
				continue
			}
			list, err := client.Resource(gv.WithResource(r.Name)).List(context.Background(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("listing %s: %v", r.Name, err)
			}
			for _, item := range list.Items {
				if !isOurs(item) && item.GetDeletionTimestamp() == nil { // what another test has deleted goes
					o.known[item.GetUID()] = true
					o.objects[strings.Join([]string{r.Kind, item.GetNamespace(), item.GetName()}, " ")] = fingerprint(t, item)
				}
			}
		}
	}
	if len(o.objects) < 50 {
		t.Fatalf("only %d objects were read: this would compare nothing", len(o.objects))
	}
	return o
}

func isOurs(item unstructured.Unstructured) bool {
	return item.GetLabels()["app.kubernetes.io/managed-by"] == "calico-probe" &&
		strings.HasPrefix(item.GetName(), "calico-probe-")
}

// fingerprint returns the parts of an object that a run must not change: its UID, its written content, and a pod's
// container restarts. Our ephemeral containers in a pod's spec do not count.
func fingerprint(t testing.TB, item unstructured.Unstructured) string {
	t.Helper()
	starts := map[string]any{}
	if item.GetKind() == "Pod" {
		var pod corev1.Pod
		b, err := item.MarshalJSON()
		if err = errors.Join(err, json.Unmarshal(b, &pod)); err != nil {
			t.Fatal(err)
		}
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			starts[c.Name] = fmt.Sprintf("%s, %d restarts", c.ContainerID, c.RestartCount)
		}
		pod.Spec.EphemeralContainers = slices.DeleteFunc(pod.Spec.EphemeralContainers,
			func(c corev1.EphemeralContainer) bool {
				return strings.HasPrefix(c.Name, "calico-probe-")
			})
		b, err = json.Marshal(pod.Spec)
		var spec map[string]any
		if err = errors.Join(err, json.Unmarshal(b, &spec)); err != nil {
			t.Fatal(err)
		}
		item.Object["spec"], item.Object["starts"] = spec, starts
	}
	delete(item.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(item.Object, "metadata", field)
	}
	// The endpoint controllers write this annotation when a pod's readiness changes, so it is status: on a busy machine
	// CoreDNS may briefly be unready. The object may have no other annotation, or no annotation by then.
	notes := item.GetAnnotations()
	delete(notes, "endpoints.kubernetes.io/last-change-trigger-time")
	if len(notes) == 0 {
		notes = nil // which removes the field
	}
	item.SetAnnotations(notes)
	b, err := json.Marshal(item.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestNothingElseChanges uses every access method with every profile, opens sessions and shells, cleans up, and is
// killed. All objects that are not the client's must stay unchanged: UIDs, specs, labels, restarts.
func TestNothingElseChanges(t *testing.T) {
	execTarget(t)
	byWay := map[string][]string{
		"api":       {"--via", "api"},
		"pod":       {"--via", "pod"},
		"ephemeral": {"--via", "ephemeral"},
		"exec":      {"--via", "exec"},
		"ssh":       append(bySSH(t), "--via", "ssh"),
		"neighbour": {"--via", "outside"},
		"auto":      nil,
	}
	unchanged(t)
	for _, way := range slices.Sorted(maps.Keys(byWay)) {
		for _, profile := range []string{"quick", "standard", "deep"} {
			if way == "neighbour" && profile != "standard" { // which asks one question, whatever the profile
				continue
			}
			d, a := report(t, append([]string{"run", "--node", "node-b", "--skip", "node-load", "--profile", profile},
				byWay[way]...)...)
			wanted := map[bool]int{false: 0, true: 5}[way == "neighbour"] // which puts nothing on the node itself
			if a.exit != wanted {
				t.Errorf("%s, %s: exit %d\n%s%s", way, profile, a.exit, d, a.stderr)
			}
			if way != "auto" && way != "neighbour" && !slices.Contains(d.tried(), way) {
				t.Errorf("%s, %s: it went by %v", way, profile, d.tried())
			}
		}
	}
	for _, way := range []string{"pod", "ephemeral", "exec", "ssh"} {
		a := call(t, append([]string{"shell", "--node", "node-b", "-c", "run node-swap; links; sh -- true"}, byWay[way]...)...)
		if a.exit != 0 {
			t.Errorf("a session by %s: exit %d\n%s%s", way, a.exit, a.stdout, a.stderr)
		}
	}
	for _, way := range []string{"pod", "ephemeral", "exec", "ssh"} {
		killedBy(t, way, byWay[way])
		if a := call(t, "clean"); a.exit != 0 {
			t.Errorf("clean after a client killed by way of %s: exit %d\n%s%s", way, a.exit, a.stdout, a.stderr)
		}
	}
	killedBy(t, "pod", byWay["pod"])
	for _, run := range ours(t) {
		if a := call(t, "clean", "--run", run); a.exit != 0 {
			t.Errorf("clean --run: exit %d\n%s%s", a.exit, a.stdout, a.stderr)
		}
	}
	killedBy(t, "pod", byWay["pod"])
	if a := call(t, "clean", "--all", "--yes"); a.exit != 0 || !strings.Contains(a.stdout, "removed ") {
		t.Errorf("clean --all: exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
}

// killedBy kills a client as soon as its probe on node-b, by that way, answers.
func killedBy(t *testing.T, way string, flags []string) {
	t.Helper()
	cmd, out := started(t, nil, append([]string{"run", "--node", "node-b", "-o", "ndjson"}, flags...)...)
	waitFor(t, out, `"way":"`+way+`"`)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}

// TestTheComparisonSees changes one of each thing that the comparison covers. The comparison must report it, otherwise
// its test could not fail.
func TestTheComparisonSees(t *testing.T) {
	ctx, k := t.Context(), kube(t)
	const namespace = "e2e-comparison"
	if _, err := k.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.CoreV1().Namespaces().Delete(context.Background(), namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	maps := k.CoreV1().ConfigMaps(namespace)
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "somebodys"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := readOthers(t)
	made.Data = map[string]string{"a": "b"}
	if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "somebodys-end", Namespace: namespace},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "somebodys", UID: made.UID},
		Reason:         "Preempting", LastTimestamp: metav1.Now(), FirstTimestamp: metav1.Now(),
	}
	if _, err := k.CoreV1().Events(namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	seen := &recorder{TB: t}
	before.compare(seen)
	for _, want := range []string{"ConfigMap e2e-comparison somebodys was changed", "event Preempting"} {
		if !strings.Contains(seen.said, want) {
			t.Errorf("the comparison does not say %q:\n%s", want, seen.said)
		}
	}
}

// recorder keeps the failure messages of a test.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Errorf(format string, args ...any) { r.said += fmt.Sprintf(format, args...) }
func (r *recorder) Helper()                           {}
