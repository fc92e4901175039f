//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/runbook"
)

// TestRunbookSeesItHealed answers a built-in runbook that the fix is done while the fault still exists, and heals it a
// little later. The runbook must end then, and not before.
func TestRunbookSeesItHealed(t *testing.T) {
	slow(t)
	const node = "node-b"
	t.Cleanup(func() { mustSandbox(t, "fault", "heal"); nodeReady(t, node) })
	mustSandbox(t, "fault", "inject", "cni-config-shadowed")
	var errs heard
	cmd, out := started(t, &errs, "runbook", "run", "pods-no-network", "--node", node, "-o", "ndjson", "--answer",
		"fixed=done")
	lines := json.NewDecoder(out)
	for fixed := false; !fixed; {
		var e runbook.Entry
		if err := lines.Decode(&e); err != nil {
			t.Fatalf("it ended before it was told that the fix is done: %v\n%s", err, errs.String())
		}
		fixed = e.Name == "fixed"
	}
	probes := func() (names []string) {
		pods, err := kube(t).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=calico-probe"})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pods.Items {
			names = append(names, p.Name)
		}
		return names
	}
	before, attempt := probes(), "" // the first attempt of the wait has a pod of its own
	eventually(t, 2*time.Minute, func() string {
		now := probes()
		for _, name := range now {
			if !slices.Contains(before, name) {
				attempt = name
			}
		}
		if attempt == "" || slices.Contains(now, attempt) {
			return "the wait has not asked yet:\n" + errs.String()
		}
		return ""
	})
	healed := time.Now()
	mustSandbox(t, "fault", "heal")
	var last map[string]any
	var waited runbook.Entry
	for {
		var e json.RawMessage
		if lines.Decode(&e) != nil {
			break
		}
		var step runbook.Entry
		if json.Unmarshal(e, &step) == nil && step.Name == "well-again" {
			waited = step
		}
		last = map[string]any{}
		if err := json.Unmarshal(e, &last); err != nil {
			t.Fatal(err)
		}
	}
	err := cmd.Wait()
	if told := errs.String(); !strings.Contains(told, "well-again: attempt 1, not yet, ") || strings.Count(told, "\n") > waited.Tries+2 {
		t.Errorf("of %d attempts it tells\n%s", waited.Tries, told)
	}
	// of a machine that is busy with tests
	if err != nil || last["verdict"] != "healthy" && last["verdict"] != "warnings" {
		t.Errorf("%v, %v\n%s", err, last, errs.String())
	}
	if says, _ := last["says"].(string); !strings.Contains(says, "healthy again; the cause was: new pods of "+node) {
		t.Errorf("it came to %q", says)
	}
	if waited.Held == nil || !*waited.Held || waited.Tries < 2 || waited.At.Before(healed) {
		t.Errorf("its wait: %+v, healed at %v", waited, healed)
	}
}

// TestRunbookRepairs lets a built-in runbook run its only repair. It must show the dry run and save the log first, act
// only after its name is typed, and then find the node healthy.
func TestRunbookRepairs(t *testing.T) {
	slow(t)
	const node = "node-b"
	t.Cleanup(func() { mustSandbox(t, "fault", "heal"); nodeReady(t, node) })
	mustSandbox(t, "fault", "inject", "cni-config-missing")
	before := calicoNode(t, node)
	s := newScreen(t, "PATH="+file(".cache/bin")+":"+os.Getenv("PATH"))
	s.client("runbook run pods-no-network --node " + node + " --allow-actions restart-calico-node --journal " + s.file("journal"))
	s.wants("to do it, type restart-calico-node:")
	// Of logs of 40 lines the first have left the screen.
	if shown := s.must("capture-pane", "-p", "-J", "-S", "-"); !strings.Contains(shown, "(server dry run)") || !strings.Contains(shown, "saved before it ran: kubectl logs") {
		t.Errorf("no dry run or no log is shown:\n%s", shown)
	}
	if now := calicoNode(t, node); now != before {
		t.Errorf("%s was deleted before anybody confirmed it, %s is there", before, now)
	}
	s.enter("restart-calico-node")
	s.wants("is the fix done?")
	if now := calicoNode(t, node); now == before {
		t.Errorf("%s was not deleted", before)
	}
	s.enter("done")
	s.wants("well-again: attempt 1, not yet")
	mustSandbox(t, "fault", "heal") // as the install-cni of Calico does; the sandbox's stand-in writes no file
	eventually(t, 5*time.Minute, func() string {
		if shown := s.shows(); !strings.Contains(shown, node+" is healthy again") {
			return "it is not called well:\n" + shown
		} else if lines := strings.Count(shown, "well-again: a"); lines > 1 {
			t.Fatalf("the wait has %d lines:\n%s", lines, shown)
		}
		return ""
	})
	s.left(0)
	a := call(t, "runbook", "record", s.file("journal"), "-o", "json")
	var r runbook.Record
	if err := json.Unmarshal([]byte(a.stdout), &r); err != nil {
		t.Fatalf("%v: %+v", err, a)
	}
	i := slices.IndexFunc(r.Steps, func(e runbook.Entry) bool { return e.Name == "restart-calico-node" })
	if i < 0 || r.Steps[i].Deed == nil || len(r.Steps[i].Deed.Kept) != 3 {
		t.Fatalf("the record has no action that keeps something: %s", a.stdout)
	}
	kept := r.Steps[i].Deed.Kept
	if now := kept[2]; now.Failed != "" || len(now.Lines) == 0 || !slices.Contains(now.Command, "pod/"+before) {
		t.Errorf("of the log of %s there is %+v", before, now)
	}
	for _, k := range kept { // there need be none of a start before, nor of a container
		t.Logf("%v: %d lines, %s", k.Command, len(k.Lines), k.Failed)
	}
}

// calicoNode returns the name of the node's calico-node pod, "" if there is none.
func calicoNode(t testing.TB, node string) string {
	t.Helper()
	pods, err := kube(t).CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{
		LabelSelector: "k8s-app=calico-node", FieldSelector: "spec.nodeName=" + node,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) == 0 {
		return ""
	}
	return pods.Items[0].Name
}
