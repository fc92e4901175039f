//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/calico-probe/calico-probe/internal/cluster"
	reports "github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// A sweepCase is a verb whose calls fail one by one.
type sweepCase struct {
	name  string
	fault bool // something is wrong with the node, or with one of the nodes
	args  []string
	short bool // also with -short
	// before prepares a run, and returns more arguments. after returns what is wrong with the leftovers, "" = nothing.
	before func(t *testing.T, i int) (args []string, after func(exit int) string)
}

// sweepTime is the time limit of a run with failing calls, and sweepSpare the additional time for clean-up: a session
// closes within 13 seconds, and the machine is busy.
const (
	sweepTime  = 12 * time.Second
	sweepSpare = 25 * time.Second
)

func sweepCases() []sweepCase {
	limit := "--timeout=" + sweepTime.String()
	short := "--request-timeout=5s"
	// What a busy machine answers late is left out.
	asked := "node-sysctl,node-swap,node-disk,bird-socket,cni-nodename"
	timely := func(id string) bool { return id == facts.CheckNodeLease }
	survey := strings.Join(slices.DeleteFunc(cluster.SurveyChecks(), timely), ",")
	run := func(node, via string) []string {
		checks := "api," + asked
		if via == "api" {
			checks = "api"
		}
		return []string{"run", "--node", node, "--via", via, "-o", "json", limit, "--checks", checks}
	}
	all := func(via, checks string) []string {
		return []string{"run", "--all-nodes", "--via", via, "-o", "json", limit, "--checks", checks}
	}
	shell := func(node string) []string {
		return []string{"shell", "--node", node, "--via", "pod", "-c", "run node-sysctl node-swap; links; ping -c 1 10.88.0.1", limit}
	}
	return []sweepCase{
		{name: "run --via api", args: run("node-a", "api")},
		{name: "run --via pod", args: run("node-a", "pod")},
		{name: "run --via ephemeral", args: run("node-a", "ephemeral")},
		{name: "run --via auto", args: run("node-a", "auto")},
		{name: "run --all-nodes", args: all("pod", survey+","+asked)},
		{name: "run --all-nodes --via api", args: all("api", survey)},
		{name: "shell", args: shell("node-a")},
		{name: "clean", short: true, args: []string{"clean", short}, before: sweepClean},
		{name: "conditions", args: []string{"conditions", "--node", "node-a", limit}, before: sweepConditions},
		{name: "run --via api", fault: true, args: run("node-b", "api")},
		{name: "run --via pod", fault: true, short: true, args: run("node-b", "pod")},
		{name: "run --via ephemeral", fault: true, args: run("node-b", "ephemeral")},
		{name: "run --via auto", fault: true, args: run("node-b", "auto")},
		{name: "run --all-nodes", fault: true, short: true, args: all("pod", survey+","+asked)},
		{name: "run --all-nodes --via api", fault: true, args: all("api", survey)},
		{name: "shell", fault: true, args: shell("node-b")},
		{name: "conditions", fault: true, args: []string{"conditions", "--at-most", "100%", limit}, before: sweepConditions},
	}
}

// sweepClean leaves a pod for clean to remove. The pod must be gone if and only if clean reports its removal.
func sweepClean(t *testing.T, i int) ([]string, func(int) string) {
	run := fmt.Sprintf("%08x", 0x5e000000+i)
	says := map[string]string{"calico-probe.io/node": "node-a", "calico-probe.io/lifetime": "1s"}
	pod := leftover(t, "default", run, says)
	return []string{"--run", run}, func(exit int) string {
		still := there(t, pod)
		err := kube(t).CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, *metav1.NewDeleteOptions(0))
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			return err.Error()
		case exit == 0 && still:
			return "exit 0, and the pod is still there"
		}
		return ""
	}
}

// sweepWritten has conditions written as they are to be, and takes them away in the end.
func sweepWritten(t *testing.T, c sweepCase) {
	t.Cleanup(func() { call(t, "conditions", "--remove") })
	write := func() { call(t, c.args...) }
	wantsHealth(t, "node-a", corev1.ConditionTrue, "", write)
	if c.fault {
		wantsHealth(t, "node-b", corev1.ConditionFalse, "", write)
	}
}

// sweepConditions looks at what conditions writes: the broken node is never called good, and the good one never broken.
func sweepConditions(t *testing.T, _ int) ([]string, func(int) string) {
	return nil, func(int) string {
		for node, never := range map[string]corev1.ConditionStatus{
			"node-a": corev1.ConditionFalse, "node-b": corev1.ConditionTrue,
		} {
			if c := healthOf(t, node); c != nil && c.Status == never {
				return fmt.Sprintf("%s is said to be %s: %s", node, c.Status, c.Message)
			}
		}
		return ""
	}
}

// swept is what came of a sweep.
type swept struct {
	sweepCase
	mu      sync.Mutex
	calls   int
	by      map[string]int // how many failed in each way
	exits   map[int]int
	missed  int // the call was not made again
	left    int
	hung    int
	greener int
	whole   map[string]string // of a run of which nothing failed: each check, with its worst status
}

// TestSweep has each API call of a verb fail once in each way. Nothing may be left, the verb must end in time, and its
// verdict must not be better than without the failure. SWEEP=all tests all calls and writes docs/sweep.md. Otherwise
// some calls are picked evenly, fewer with -short.
func TestSweep(t *testing.T) {
	s := newSweeper(t)
	unchanged(t)
	for _, c := range sweepCases() {
		name := c.name + ", healthy"
		if c.fault {
			name = c.name + ", fault"
		}
		if testing.Short() && !c.short {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if c.fault {
				sweepFault(t)
			}
			if c.args[0] == "conditions" {
				sweepWritten(t, c)
			}
			r := &swept{sweepCase: c, by: map[string]int{}, exits: map[int]int{}}
			r.all(t, s)
			t.Logf("%d calls, failed %v, exit codes %v, not met %d, left behind %d, hung %d, greener %d", r.calls, r.by,
				r.exits, r.missed, r.left, r.hung, r.greener)
			if os.Getenv("SWEEP") == "all" {
				if err := replaceRow(file("docs/sweep.md"), sweepHead, r.row()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// sweepFault breaks node-b in two ways that show at once: packets are not forwarded, which a probe there sees, and the
// address that Calico has registered is not the node's, which the API says.
func sweepFault(t *testing.T) {
	set := func(forward, address string) {
		mustSandbox(t, "exec", "node-b", "--", "sysctl", "-qw", "net.ipv4.ip_forward="+forward)
		patch := `{"metadata":{"annotations":{"projectcalico.org/IPv4Address":"` + address + `"}}}`
		_, err := kube(t).CoreV1().Nodes().Patch(context.Background(), "node-b", types.MergePatchType, []byte(patch),
			metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { set("1", "10.88.0.12/24"); calicoReady(t, "node-b") })
	set("0", "10.0.0.66/24")
}

// all runs the verb once for the list of its calls, and then with one failure after the other.
func (r *swept) all(t *testing.T, s *sweeper) {
	whole := s.client(t, "", "")
	if text := r.run(t, whole, 0); text != "" {
		t.Fatalf("without a failure: %s", text)
	}
	calls := whole.calls
	r.calls, r.exits = len(calls), map[int]int{}
	type failure struct{ call, by string }
	var failures []failure
	for _, call := range calls {
		if _, n, _ := strings.Cut(call, " #"); n > "2" { // another of many that are alike
			continue
		}
		for _, by := range slices.Sorted(maps.Keys(sweepFailures)) {
			failures = append(failures, failure{call, by})
		}
	}
	stride := 1
	if os.Getenv("SWEEP") != "all" { // each prime to the number of ways, so that each of those is met
		stride = max(1, len(failures)/map[bool]int{true: 3, false: 12}[testing.Short()]) | 1
	}
	const abreast = 8
	room := make(chan struct{}, abreast)
	var running sync.WaitGroup
	for i := 0; i < len(failures); i += stride {
		f := failures[i]
		c := s.client(t, f.call, f.by)
		room <- struct{}{}
		running.Go(func() {
			defer func() { <-room }()
			text := r.run(t, c, i+1)
			r.mu.Lock()
			defer r.mu.Unlock()
			if c.failed {
				r.by[f.by]++
			} else {
				r.missed++
			}
			if text != "" {
				t.Errorf("%s by %s: %s", f.call, f.by, text)
			}
		})
	}
	running.Wait()
	if n := (len(failures) + stride - 1) / stride; r.missed*4 > n {
		t.Errorf("%d of %d calls were not made again: this tests too little", r.missed, n)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		what := left(t)
		if what == "" {
			break
		}
		if time.Now().After(deadline) {
			r.left = strings.Count(what, ";") + 1
			t.Errorf("left behind: %s", what)
			break
		}
	}
}

// run is one run of the verb, and gives what is wrong with it.
func (r *swept) run(t *testing.T, c *sweptClient, i int) string {
	var more []string
	after := func(int) string { return "" }
	if r.before != nil {
		more, after = r.before(t, i)
	}
	cmd := client(t, slices.Concat(r.args, more, []string{"--kubeconfig", c.kubeconfig})...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return err.Error()
	}
	took, exit := time.Since(began), cmd.ProcessState.ExitCode()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exits[exit]++
	var wrong []string
	if took > sweepTime+sweepSpare {
		r.hung++
		wrong = append(wrong, fmt.Sprintf("it took %v", took))
	}
	if text := r.judge(c, exit, out.Bytes()); text != "" {
		r.greener++
		wrong = append(wrong, text)
	}
	if text := after(exit); text != "" {
		r.greener++
		wrong = append(wrong, text)
	}
	if strings.Contains(errs.String(), "panic:") || exit != 0 && out.Len() == 0 && errs.Len() == 0 {
		wrong = append(wrong, "it does not say what is wrong")
	}
	if len(wrong) == 0 {
		return ""
	}
	return fmt.Sprintf("exit %d: %s\n%.2000s%.2000s", exit, strings.Join(wrong, "; "), errs.String(), brief(out.Bytes()))
}

// judge returns how an answer is better, or wrongly worse, than the answer without failures.
func (r *swept) judge(c *sweptClient, exit int, out []byte) string {
	ends := []int{reports.ExitHealthy, reports.ExitTool, reports.ExitIncomplete}
	writes := r.args[0] == "conditions" // whose exit code is not about nodes
	switch {
	case r.fault && !writes:
		ends[0] = reports.ExitFault
	case c.fail == "" && exit != 0:
		return "it is not healthy"
	}
	if !slices.Contains(ends, exit) || c.fail == "" && exit != ends[0] {
		return fmt.Sprintf("exit code, want one of %v", ends)
	}
	has := checksOf(out)
	if r.whole == nil {
		r.whole = has
	}
	if exit != 0 {
		return ""
	}
	for check := range r.whole {
		if _, answered := has[check]; !answered {
			return check + " has no answer, and nobody says so"
		}
	}
	return ""
}

// checksOf are the checks of a JSON report of one node. A fleet's report lists bad answers alone, and a session's is no
// JSON: of those only the verdict is compared.
func checksOf(out []byte) map[string]string {
	var d document
	all := map[string]string{}
	if json.Unmarshal(out, &d) != nil {
		return all
	}
	for _, r := range d.Results {
		all[r.Check] = string(r.Status)
	}
	return all
}

// brief is what of a report is not well, or the text as it is.
func brief(out []byte) string {
	var d document
	if json.Unmarshal(out, &d) != nil {
		return string(out)
	}
	text := d.Verdict + "\n"
	for _, r := range d.Results {
		if r.Status != "ok" && r.Status != "info" && r.Status != "skip" {
			text += r.Method + " " + r.String() + "\n"
		}
	}
	return text
}

const sweepHead = `# When one call of the API fails

` + "`make sweep`" + ` writes this page. A proxy stands in front of the API server of a sandbox cluster. A first run of each verb
lists its API calls. Then each call fails once in each of four ways, each in a separate run:

- **500**: the server answers with an internal error.
- **429**: it answers "too many requests", with ` + "`Retry-After: 1`" + `.
- **cut**: the server executes the request, and closes the connection in the middle of the answer.
- **silent**: the server executes the request, and does not answer.

A minute after the runs, a leftover pod, Job, process or folder counts as *left behind*. *Hung* runs did not end within 25 s
after ` + "`--timeout`" + ` (12 s here). *Greener* runs have a wrong verdict because of the failure: exit code 0 on a node with a
fault, a fault on a healthy node, a healthy verdict despite an unanswered check, a false condition. The fault is
on node-b: the node does not forward packets, and Calico has registered a wrong address.

| verb | nodes | calls | runs | 500 | 429 | cut | silent | exit codes | left behind | hung | greener |
|---|---|---|---|---|---|---|---|---|---|---|---|
`

// row is the sweep in the page.
func (r *swept) row() string {
	nodes := map[bool]string{false: "healthy", true: "with a fault"}[r.fault]
	runs := 0
	var exits []string
	for _, code := range slices.Sorted(maps.Keys(r.exits)) {
		exits = append(exits, fmt.Sprintf("%d: %d", code, r.exits[code]))
		runs += r.exits[code]
	}
	return fmt.Sprintf("| `%s` | %s | %d | %d | %d | %d | %d | %d | %s | %d | %d | %d |", r.name, nodes, r.calls, runs,
		r.by["500"], r.by["429"], r.by["cut"], r.by["silent"], strings.Join(exits, ", "), r.left, r.hung, r.greener)
}
