package examine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/install"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/must"
)

// alive is a node that shows a sign of life.
func alive() bool { return true }

// askBy is the part of askNode that has the access methods.
func (r *Run) askBy(ctx context.Context, tries *injector.Fallback, snap *cluster.Snapshot) error {
	return r.AskBy(ctx, tries, snap, func(p *injector.Placed) error { return r.askProbe(ctx, p, snap) })
}

// TestNoTimeToPlace has a run time out before a probe is placed. The run must report that, and give no verdict from API
// data alone.
func TestNoTimeToPlace(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(TimeoutError(12 * time.Second))
	var got seenEvents
	r := newTestRun(Options{}, io.Discard, &got)
	good := probe.Found(probe.OK, "Ready")
	good.Check = facts.CheckNodeReady
	open := func(context.Context, injector.Options) (*injector.Session, error) {
		t.Error("it was tried")
		return nil, io.EOF
	}
	steps := []injector.Method{{Name: injector.MethodPod, Open: open}}
	err := r.Add(injector.MethodAPI, probe.Event{Type: probe.EventResult, Result: &good})
	if err == nil {
		err = r.askBy(ctx, r.attempts(steps, nil, alive), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	last := got[len(got)-1].Result
	if last.Check != probe.CheckPlaced || !strings.HasPrefix(last.Saw, "not tried: --timeout 12s is over;") {
		t.Errorf("%+v", last)
	}
	if v := r.Tally.Verdict(false); v.Exit != report.ExitIncomplete {
		t.Errorf("%+v", v)
	}
}

// TestPatientInTheEnd gives up a pod early, and has ssh connect without output. The pod must be tried again under
// another name, with all remaining time. The access methods are stand-ins, the sessions are real.
func TestPatientInTheEnd(t *testing.T) {
	t.Parallel()
	var tries []injector.Options
	local := injector.InProcess((&probe.Runner{Host: &probe.Host{}}).Serve, "of a test")
	steps := []injector.Method{
		{Name: injector.MethodPod, Open: func(ctx context.Context, opts injector.Options) (*injector.Session, error) {
			if tries = append(tries, opts); len(tries) == 1 {
				return nil, &injector.PlacementError{Reason: facts.ReasonKubelet, Waited: true, Text: "not started"}
			}
			return local(ctx, opts)
		}},
		{Name: injector.MethodSSH, Open: func(ctx context.Context, opts injector.Options) (*injector.Session, error) {
			return silentSession(ctx, opts)
		}},
	}
	var got seenEvents
	r := newTestRun(Options{}, io.Discard, &got)
	must.Do(t, r.askBy(t.Context(), r.attempts(steps, nil, alive), nil))
	if len(tries) != 2 || tries[0].Run != r.ID || tries[1].Run == r.ID ||
		tries[0].Idle == 0 || tries[1].Idle != 0 || tries[1].Start != injector.StartUsual {
		t.Errorf("%+v", tries)
	}
	var said []string
	for _, ev := range got {
		if ev.Result != nil {
			said = append(said, ev.Method+" "+ev.Result.Check+" "+string(ev.Result.Status))
		}
	}
	if text := strings.Join(said, ", "); text != "ssh probe-answered info, pod probe-placed ok" {
		t.Errorf("%s: %+v", text, got)
	}
}

// silentSession is one with a program that takes what it is asked and ends without a word.
func silentSession(ctx context.Context, opts injector.Options) (*injector.Session, error) {
	return injector.InProcess(func(_ context.Context, in io.Reader, _ io.Writer) error {
		_, err := bufio.NewReader(in).ReadString('\n')
		return err
	}, "of a test")(ctx, opts)
}

// TestMuteImageStaysOut requires that an image that ran silently in a pod is not used in calico-node's pod, which keeps
// its ephemeral containers. The access methods are stand-ins, the sessions are real.
func TestMuteImageStaysOut(t *testing.T) {
	t.Parallel()
	var tried []string
	mute := func(name string) injector.Method {
		return injector.Method{Name: name, Open: func(ctx context.Context, opts injector.Options) (*injector.Session, error) {
			tried = append(tried, name)
			return silentSession(ctx, opts)
		}}
	}
	var got seenEvents
	r := newTestRun(Options{Image: "workload:1"}, io.Discard, &got)
	mutes := []injector.Method{mute(injector.MethodPod), mute(injector.MethodEphemeral), mute(injector.MethodExec)}
	must.Do(t, r.askBy(t.Context(), r.attempts(mutes, nil, alive), nil))
	if strings.Join(tried, " ") != "pod exec" {
		t.Errorf("tried: %v", tried)
	}
	skipped := slices.ContainsFunc(got, func(ev probe.Event) bool {
		return ev.Method == injector.MethodEphemeral && ev.Result.Status == probe.Skip &&
			ev.Result.Saw == "not tried: image workload:1 ran in a pod and did not answer as a probe; an ephemeral container could not be removed"
	})
	if !skipped {
		t.Errorf("%+v", got)
	}
}

// TestWaitedAsAsked requires that a method is not retried if the user set the start timeout. The access methods are
// stand-ins.
func TestWaitedAsAsked(t *testing.T) {
	t.Parallel()
	var tried []string
	way := func(name string) injector.Method {
		return injector.Method{Name: name, Open: func(_ context.Context, opts injector.Options) (*injector.Session, error) {
			tried = append(tried, fmt.Sprintf("%s %v %v", name, opts.Start, opts.Idle))
			return nil, &injector.PlacementError{Reason: facts.ReasonKubelet, Waited: true, Text: "not started"}
		}}
	}
	r := newTestRun(Options{StartTimeout: 200 * time.Millisecond}, io.Discard, &seenEvents{})
	both := []injector.Method{way(injector.MethodPod), way(injector.MethodExec)}
	must.Do(t, r.askBy(t.Context(), r.attempts(both, nil, alive), nil))
	if got := strings.Join(tried, ", "); got != "pod 200ms 0s, exec 200ms 0s" {
		t.Error(got)
	}
}

// TestOnceWhereTheRuntimeIsDown requires that a node is given up quickly, without retries, if its kubelet reports that
// the runtime does not answer. The access methods are stand-ins.
func TestOnceWhereTheRuntimeIsDown(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"container runtime is down": "pod 5s, ssh 0s",
		"kubelet is posting that":   "pod 40s, ssh 0s, pod 40s",
	} {
		var tries []string
		gaveUp := func(way string) injector.Open {
			return func(_ context.Context, opts injector.Options) (*injector.Session, error) {
				tries = append(tries, fmt.Sprintf("%s %v", way, opts.Start))
				return nil, &injector.PlacementError{Reason: facts.ReasonRuntime, Waited: true, Text: "not started"}
			}
		}
		snap := &cluster.Snapshot{Node: &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: message},
		}}}}
		r := newTestRun(Options{}, io.Discard, &seenEvents{})
		steps := []injector.Method{
			{Name: injector.MethodPod, Open: gaveUp(injector.MethodPod)},
			{Name: injector.MethodSSH, Open: gaveUp(injector.MethodSSH)},
		}
		must.Do(t, r.askBy(t.Context(), r.attempts(steps, snap, alive), snap))
		if got := strings.Join(tries, ", "); got != want {
			t.Errorf("%s: %s, want %s", message, got, want)
		}
	}
}

// TestNodesWithoutLinux requires an immediate report for a node that cannot run our probe, without attempts, and no
// such report for other nodes.
func TestNodesWithoutLinux(t *testing.T) {
	t.Parallel()
	linux := corev1.NodeSystemInfo{OperatingSystem: "linux", KubeletVersion: "v1.36.0", KernelVersion: "6.1.0"}
	for name, c := range map[string]struct {
		labels map[string]string
		info   corev1.NodeSystemInfo
		says   string
	}{
		"linux":                {map[string]string{corev1.LabelOSStable: "linux"}, linux, ""},
		"never heard of":       {nil, corev1.NodeSystemInfo{}, ""},
		"windows by its label": {map[string]string{corev1.LabelOSStable: "windows"}, linux, "runs Windows"},
		"windows by its kubelet": {nil, corev1.NodeSystemInfo{
			OperatingSystem: "windows", KubeletVersion: "v1.36.0", KernelVersion: "10.0",
		}, "runs Windows"},
		"virtual by its label": {map[string]string{"type": "virtual-kubelet"}, linux, "is virtual"},
		"without a kernel": {nil, corev1.NodeSystemInfo{
			OperatingSystem: "Linux", KubeletVersion: "v1.33-vk",
		}, "is virtual"},
	} {
		tries := 0
		open := func(context.Context, injector.Options) (*injector.Session, error) {
			tries++
			return nil, &injector.PlacementError{Reason: facts.ReasonRBAC, Text: "no right"}
		}
		step := injector.Method{Name: injector.MethodPod, Open: open}
		snap := &cluster.Snapshot{Node: &corev1.Node{Status: corev1.NodeStatus{NodeInfo: c.info}}}
		snap.Node.Name, snap.Node.Labels = "n1", c.labels
		var got seenEvents
		r := newTestRun(Options{}, io.Discard, &got)
		must.Do(t, r.askBy(t.Context(), r.attempts([]injector.Method{step}, snap, alive), snap))
		res := got[len(got)-1].Result
		if told := tries == 0; told != (c.says != "") || !strings.Contains(res.Saw, c.says) ||
			told && res.Status != probe.Unknown {
			t.Errorf("%s: %d tries, %s %s", name, tries, res.Status, res.Saw)
		}
		step.Name = injector.MethodLocal // somebody who is there asks what is there
		if err := r.askBy(t.Context(), r.attempts([]injector.Method{step}, snap, alive), snap); err != nil ||
			tries == 0 {
			t.Errorf("%s: local was not tried: %v", name, err)
		}
	}
}

func TestDestination(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-3"}}
	node.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "w3"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.7"},
		{Type: corev1.NodeInternalIP, Address: "fd00::7"},
	}
	for ssh, want := range map[string]string{
		"": "10.0.0.7", "admin@{ip}": "admin@10.0.0.7", "{node}.example.com": "worker-3.example.com", "jump": "jump",
	} {
		if got := (Options{SSH: ssh}).destination(node); got != want {
			t.Errorf("%q: %s, want %s", ssh, got, want)
		}
	}
	if got := (Options{SSH: "admin@{ip}"}).destination(&corev1.Node{}); got != "" {
		t.Errorf("without an address: %s", got)
	}
}

// TestHostileAddress requires that ssh gets a node address from the kubelet only if another machine can have it.
func TestHostileAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"root@other": "", "-oProxyCommand=id": "", "10.0.0.7\x1b[2J": "", " 10.0.0.7": "", "other.example.com": "",
		"10.0.0.7/24":  "",
		"fe80::1%eth0": "", "fd00::7%-oX": "", "127.0.0.1": "", "::1": "", "::ffff:127.0.0.1": "", "0.0.0.0": "",
		"224.0.0.1": "", "169.254.169.254": "",
		"010.0.0.7": "", "10.0.0.7": "10.0.0.7", "FD00:0::7": "fd00::7", "::ffff:10.0.0.7": "10.0.0.7",
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-3"}}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		for ssh, want := range map[string]string{"": want, "admin@{ip}": as("admin@", want), "{node}": "worker-3"} {
			if got := (Options{SSH: ssh}).destination(node); got != want {
				t.Errorf("%q with --ssh %q: %q, want %q", address, ssh, got, want)
			}
		}
	}
}

// as puts a user before a host, where there is one.
func as(user, host string) string {
	if host == "" {
		return ""
	}
	return user + host
}

// TestSharedMachine requires that a machine-id shared by two nodes identifies neither.
func TestSharedMachine(t *testing.T) {
	t.Parallel()
	var all []corev1.Node
	for name, id := range map[string]string{"a": "1", "b": "2", "c": "2"} {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.NodeInfo.MachineID = id
		all = append(all, n)
	}
	for _, n := range all {
		if got, want := machineIDOf(&n, all), map[string]string{"a": "1"}[n.Name]; got != want {
			t.Errorf("%s: %q, want %q", n.Name, got, want)
		}
	}
}

// TestEitherNamespace requires that a pod that is refused beside calico-node goes to the namespace of 'manifests', with
// one message, and only if the user named no namespace. The access method is a stand-in for the API server's answers.
func TestEitherNamespace(t *testing.T) {
	t.Parallel()
	refused := func(r facts.Reason) error {
		return &injector.PlacementError{Reason: r, Text: "refused by " + string(r)}
	}
	const both = install.Namespace + ", which 'calico-probe manifests' prints: "
	for name, c := range map[string]struct {
		named  string
		beside error  // what kube-system says
		there  error  // what the namespace of 'manifests' says
		tried  string // for the first probe and the second
		says   string
	}{
		"admitted":          {tried: "kube-system kube-system"},
		"no right":          {beside: refused(facts.ReasonRBAC), tried: "kube-system calico-probe calico-probe"},
		"policy":            {beside: refused(facts.ReasonAdmission), tried: "kube-system calico-probe calico-probe"},
		"quota":             {beside: refused(facts.ReasonQuota), tried: "kube-system calico-probe calico-probe"},
		"no right anywhere": {beside: refused(facts.ReasonRBAC), there: refused(facts.ReasonRBAC), tried: "kube-system calico-probe kube-system calico-probe", says: "refused by rbac; nor in namespace " + both + "no right there either"},
		"nothing installed": {beside: refused(facts.ReasonAdmission), there: refused(facts.ReasonNamespace), tried: "kube-system calico-probe kube-system calico-probe", says: "refused by admission; nor in namespace " + both + "refused by namespace"},
		"a dead kubelet": {beside: refused(facts.ReasonKubelet), tried: "kube-system kube-system",
			says: "refused by kubelet"},
		"a dead kubelet there": {beside: refused(facts.ReasonRBAC), there: refused(facts.ReasonKubelet), tried: "kube-system calico-probe calico-probe", says: "refused by kubelet"},
		"the API fails there":  {beside: refused(facts.ReasonQuota), there: refused(facts.ReasonAPI), tried: "kube-system calico-probe kube-system calico-probe", says: "refused by api; and namespace kube-system rejects it: refused by quota"},
		"stopped there":        {beside: refused(facts.ReasonQuota), there: context.Canceled, tried: "kube-system calico-probe kube-system calico-probe", says: "context canceled; and namespace kube-system rejects it: refused by quota"},
		"named":                {named: "kube-system", beside: refused(facts.ReasonRBAC), tried: "kube-system kube-system", says: "refused by rbac; if 'manifests' was applied, use -n calico-probe"},
		"named, policy": {named: "kube-system", beside: refused(facts.ReasonAdmission), tried: "kube-system kube-system",
			says: "refused by admission"},
		"named as it is printed": {named: install.Namespace, there: refused(facts.ReasonRBAC),
			tried: "calico-probe calico-probe", says: "refused by rbac"},
	} {
		var errs bytes.Buffer
		r := newTestRun(Options{}, &errs, nil)
		r.client.Namespace = c.named
		var tried []string
		open := r.client.InEitherNamespace(func(_ context.Context, opts injector.Options) (*injector.Session, error) {
			tried = append(tried, opts.Namespace)
			if opts.Namespace == install.Namespace {
				return nil, c.there
			}
			return nil, c.beside
		})
		said := ""
		for range 2 {
			if _, err := open(t.Context(), r.Placement(injector.MethodPod, nil)); err != nil {
				said = err.Error()
			}
		}
		if got := strings.Join(tried, " "); got != c.tried || said != c.says {
			t.Errorf("%s: tried %s, %q", name, got, said)
		}
		if got, want := strings.Count(errs.String(), "so it goes into calico-probe\n"), strings.Count(c.tried, "calico-probe calico-probe"); c.named == "" && got != want {
			t.Errorf("%s: %s", name, &errs)
		}
	}
}

// TestPodBack requires a return to calico-node's namespace if the other namespace accepted a pod earlier, but no longer
// does.
func TestPodBack(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	r := newTestRun(Options{}, &errs, nil)
	refuses := "kube-system"
	var tried []string
	open := r.client.InEitherNamespace(func(_ context.Context, opts injector.Options) (*injector.Session, error) {
		if tried = append(tried, opts.Namespace); opts.Namespace == refuses {
			return nil, &injector.PlacementError{Reason: facts.ReasonQuota, Text: "full"}
		}
		return nil, nil
	})
	for _, refuses = range []string{"kube-system", install.Namespace, install.Namespace} {
		if _, err := open(t.Context(), r.Placement(injector.MethodPod, nil)); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(tried, " "); got != "kube-system calico-probe calico-probe kube-system kube-system" || strings.Count(errs.String(), "so it goes into") != 2 {
		t.Errorf("tried %s\n%s", got, &errs)
	}
}

// TestWhereTheProbeGoes requires that only a verified calico-node decides the pod's namespace.
func TestWhereTheProbeGoes(t *testing.T) {
	t.Parallel()
	r := newTestRun(Options{}, io.Discard, nil)
	r.client.CalicoNamespace = "named" // which is where calico-node is looked for, and no more
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "calico-system"}}
	unverified := cluster.Read[*corev1.Pod]{Err: &cluster.UnverifiedError{}}
	for _, c := range []struct {
		want string
		snap *cluster.Snapshot
	}{
		{"calico-system", &cluster.Snapshot{Calico: cluster.Read[*corev1.Pod]{Value: pod}}},
		{metav1.NamespaceSystem, &cluster.Snapshot{Calico: unverified}},
		{metav1.NamespaceSystem, nil},
	} {
		if got := r.client.PodNamespace(c.snap); got != c.want {
			t.Errorf("%+v: namespace %s, want %s", c.snap, got, c.want)
		}
	}
	snap := &cluster.Snapshot{Node: &corev1.Node{}, Calico: unverified}
	opts := r.Placement(injector.MethodEphemeral, snap)
	if pe, ok := errors.AsType[*injector.PlacementError](opts.CalicoErr); !ok || pe.Reason != facts.ReasonNoCalico ||
		opts.Calico != nil {
		t.Errorf("to join there is %v, %v", opts.Calico, opts.CalicoErr)
	}
}

// newTestRun is a run that was not validated.
func newTestRun(opts Options, messages io.Writer, sink report.Sink) *Run {
	config := Config{Probe: func(string) []byte { return nil }, Ours: func(string) bool { return false }}
	return &Run{Collector: NewCollector(opts.Node, sink), ID: "7f3a09c1", client: NewClient(config, messages), opts: opts}
}

// TestNamedNamespace requires that the run ends if the namespace from -n is missing or terminating, without another
// access method.
func TestNamedNamespace(t *testing.T) {
	t.Parallel()
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
		{"nosuchns", `namespace "nosuchns" does not exist: omit -n, or create it: 'calico-probe manifests -n nosuchns' prints the manifest`, missing, 1},
		{"old", `namespace "old" is being deleted`, ending, 1},
		{"new", "", early, 2},
		{"", "", missing, 2},
	} {
		r := newTestRun(Options{}, io.Discard, &seenEvents{})
		r.client.Namespace = c.named
		tries := 0
		refuse := func(context.Context, injector.Options) (*injector.Session, error) { tries++; return nil, c.refused }
		methods := []injector.Method{{Name: injector.MethodPod, Open: refuse}, {Name: injector.MethodEphemeral, Open: refuse}}
		err := r.askBy(t.Context(), r.attempts(methods, nil, alive), nil)
		if tries != c.tries || errors.As(err, new(ui.UsageError)) != (c.says != "") ||
			err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("-n %q: %d methods tried, %v", c.named, tries, err)
		}
	}
}

// TestInterruptedPlacing wants no other access method suggested because the user interrupted the run.
func TestInterruptedPlacing(t *testing.T) {
	t.Parallel()
	for failure, want := range map[error]string{
		fmt.Errorf("stopped while waiting: %w", context.Canceled): "; the checks on the node did not run",
		errors.New("no answer"):                                   "'calico-probe run --via local' on the node itself runs",
	} {
		var got seenEvents
		r := newTestRun(Options{Node: "node-a", Via: ViaAuto}, io.Discard, &got)
		must.Do(t, r.notPlaced([]injector.Failure{{Method: injector.MethodPod, Err: failure}}, nil))
		saw := got[len(got)-1].Result.Saw
		if !strings.Contains(saw, want) || strings.Contains(saw, "--via local") != strings.Contains(want, "--via local") {
			t.Errorf("%v: %s", failure, saw)
		}
	}
}

// TestTryingSSHForRights requires an immediate message if ssh is tried because rights are missing, and no message
// otherwise.
func TestTryingSSHForRights(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-b"}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.7"}}}}
	refused := func(reason facts.Reason) injector.Failure {
		return injector.Failure{Method: injector.MethodPod, Err: &injector.PlacementError{Reason: reason}}
	}
	for name, c := range map[string]struct {
		via    string
		failed []injector.Failure
		want   string
	}{
		"no rights": {ViaAuto, []injector.Failure{refused(facts.ReasonRBAC), {Skip: "not tried"}},
			"calico-probe: you lack the permission to start a probe on node-b: trying ssh to 10.0.0.7 for up to 10s; " +
				"--via pod,ephemeral,exec leaves it out\n"},
		"asked for":      {"pod,ssh", []injector.Failure{refused(facts.ReasonRBAC)}, ""},
		"kubelet silent": {ViaAuto, []injector.Failure{refused(facts.ReasonRBAC), refused(facts.ReasonKubelet)}, ""},
	} {
		var said strings.Builder
		r := newTestRun(Options{Node: "node-b", Via: c.via}, &said, nil)
		r.trying(injector.Try{Method: injector.MethodSSH, After: c.failed, GivesUp: 10 * time.Second},
			&cluster.Snapshot{Node: node})
		if said.String() != c.want {
			t.Errorf("%s: %q", name, &said)
		}
	}
}
