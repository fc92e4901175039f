//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/install"
	"github.com/calico-probe/calico-probe/probe"
)

// kubectl runs the real kubectl on the tests' cluster.
func kubectl(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), file(".cache/bin/kubectl"), args...)
	cmd.Stdin = strings.NewReader(stdin)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, out, errs.String())
	}
	return string(out)
}

// TestRights requires that the rights from 'manifests' suffice for every use, and that all are needed. Without one
// verb, run and preflight must report it and leave nothing behind.
func TestRights(t *testing.T) {
	slow(t)
	execTarget(t)
	printed := call(t, "manifests", "--service-account", install.Namespace+":oncall", "--methods",
		strings.Join(append(install.People(), "kubelet"), ","))
	if printed.exit != 0 {
		t.Fatal(printed.stderr)
	}
	kubectl(t, printed.stdout, "apply", "--server-side", "-f", "-")
	var less []lesser
	var objects []runtime.Object
	for _, use := range install.Uses() {
		for i, right := range use.Rights {
			l := lesser{fmt.Sprintf("less-%s-%d", use.Name, i), use.Name, right}
			less = append(less, l)
			objects = append(objects, l.objects(t)...)
		}
	}
	manifests, err := install.YAML(objects)
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, string(manifests), "apply", "--server-side", "-f", "-")

	as := []string{"--as", "system:serviceaccount:" + install.Namespace + ":oncall", "-n", install.Namespace}
	eventually(t, time.Minute, func() string { // the authoriser's cache learns of it
		if a := call(t, append(as, "run", "--node", "node-b", "--via", "api")...); a.exit != 0 || a.stderr != "" {
			return a.stdout + a.stderr
		}
		return ""
	})
	for _, way := range []string{"pod", "ephemeral", "exec", "ssh", "kubelet"} {
		t.Run("all of "+way, func(t *testing.T) {
			d, a := report(t, slices.Concat(as, bySSH(t),
				[]string{"run", "--node", "node-b", "--via", way, "--skip", "node-load"})...)
			if a.exit != 0 || strings.Contains(a.stdout+a.stderr, "forbidden") {
				t.Errorf("exit %d, %v\n%s", a.exit, d, a.stderr)
			}
		})
	}
	t.Run("all of neighbour", func(t *testing.T) {
		d, a := report(t, append(as, "run", "--node", "node-b", "--via", "outside")...)
		if len(d.there().of("neighbour-reach")) == 0 || strings.Contains(a.stdout+a.stderr, "forbidden") {
			t.Errorf("exit %d, %v\n%s", a.exit, d, a.stderr)
		}
	})
	t.Run("all of shell", func(t *testing.T) {
		a := shellFed(t, "ping 10.88.0.11\n", append(as, "--node", "node-b")...)
		if a.exit != 0 || strings.Contains(a.stdout+a.stderr, "forbidden") {
			t.Errorf("exit %d: %s%s", a.exit, a.stdout, a.stderr)
		}
	})
	t.Run("without -n", func(t *testing.T) { withoutNamespace(t, as[:2:2]) })
	t.Run("all of clean", func(t *testing.T) {
		leave(t)
		a := call(t, "clean", as[0], as[1])
		if a.exit != 0 || strings.Count(a.stdout, "calico-probe-left-00000000") != 2 {
			t.Errorf("exit %d: %s%s", a.exit, a.stdout, a.stderr)
		}
	})
	t.Run("all of preflight", func(t *testing.T) {
		before := state(t)
		for _, way := range []string{"api", "pod", "ephemeral", "exec", "outside", "kubelet", "shell", "clean"} {
			exit := 0
			if way == "exec" { // whether the container has a shell is not known
				exit = 5
			}
			eventually(t, time.Minute, func() string { // the kubelet reports the image that was loaded
				if a := call(t, append(as, "preflight", "--node", "node-b", "--via", way)...); a.exit != exit ||
					strings.Contains(a.stdout, "warn") {
					return fmt.Sprintf("%s: exit %d: %s%s", way, a.exit, a.stdout, a.stderr)
				}
				return ""
			})
		}
		a := call(t, slices.Concat(as, bySSH(t), []string{"preflight", "--node", "node-b", "--via", "ssh"})...)
		if a.exit != 0 || !strings.Contains(a.stdout, "works via ssh; ") || strings.Contains(a.stdout, "warn") {
			t.Errorf("ssh: exit %d: %s%s", a.exit, a.stdout, a.stderr)
		}
		if after := state(t); after != before {
			t.Errorf("preflight has changed something: %s, before %s", after, before)
		}
	})
	t.Run("all of serve", func(t *testing.T) {
		// No Deployment: its image is not on this cluster, nor is there a class of volumes.
		for doc := range strings.SplitSeq(call(t, "manifests", "--methods", "api", "--serve").stdout, "---\n") {
			if !strings.Contains(doc, "\nkind: Deployment\n") && !strings.Contains(doc, "\nkind: PersistentVolumeClaim\n") {
				kubectl(t, doc, "apply", "--server-side", "-f", "-")
			}
		}
		account := "system:serviceaccount:" + install.Namespace + ":calico-probe-serve"
		d, a := report(t, "run", "--node", "node-b", "--via", "pod", "--skip", "node-load", "-n", install.Namespace, "--as",
			account)
		if a.exit != 0 || a.stderr != "" {
			t.Errorf("exit %d, %v\n%s", a.exit, d, a.stderr)
		}
		if a := call(t, "preflight", "--node", "node-b", "--via", "api,pod,serve", "-n", install.Namespace, "--as",
			account); a.exit != 0 || strings.Contains(a.stdout, "warn") {
			t.Errorf("preflight: exit %d: %s%s", a.exit, a.stdout, a.stderr)
		}
		for _, never := range []string{"secrets", "pods/exec"} {
			cmd := exec.CommandContext(t.Context(), file(".cache/bin/kubectl"), "auth", "can-i", "create", never, "-A", "--as",
				account)
			if out, err := cmd.Output(); err == nil {
				t.Errorf("it may create %s: %s", never, out)
			}
		}
	})
	t.Run("one less", func(t *testing.T) {
		for _, l := range less {
			t.Run(l.use+" "+l.right.String(), func(t *testing.T) {
				if l.use != "clean" { // each removes what it finds
					t.Parallel()
				}
				l.isTold(t)
			})
		}
	})
	nothingLeft(t)
}

// withoutNamespace requires that a user who may create pods only in the namespace of 'manifests' needs no more flags,
// and that no other permitted access method is used.
func withoutNamespace(t *testing.T, as []string) {
	const there = "pod: namespace kube-system rejects it (%s), so it goes into calico-probe\n"
	before := state(t)
	said := func(what, why string, a answer) {
		t.Helper()
		if want := "calico-probe: " + fmt.Sprintf(there, why); a.exit != 0 || a.stderr != want {
			t.Errorf("%s: exit %d, %q\n%s", what, a.exit, a.stderr, a.stdout)
		}
	}
	d, a := report(t, append(as, "run", "--node", "node-b", "--skip", "node-load")...)
	said("run", "rbac", a)
	d.want(t, "probe-placed", probe.OK, "pod: ", "pod calico-probe/calico-probe-node-b-")
	d, a = report(t, append(as, "run", "--node", "node-b", "--checks", "neighbour-reach,encap-proof,node-swap")...)
	if len(d.there().of("neighbour-reach")) == 0 || strings.Count(a.stderr, "\n") != 1 ||
		strings.Contains(a.stdout, "forbidden") {
		t.Errorf("three probes: exit %d, %q\n%s", a.exit, a.stderr, a.stdout)
	}
	a = shellFed(t, "sh -c 'echo is here'\n", append(as, "--node", "node-b")...)
	if a.exit != 0 || !strings.Contains(a.stdout, "is here") || strings.Contains(a.stdout+a.stderr, "forbidden") {
		t.Errorf("shell: exit %d: %s%s", a.exit, a.stdout, a.stderr)
	}
	a = call(t, append(as, "runbook", "run", "node-trouble", "--node", "node-b", "-o", "json")...)
	if !strings.Contains(a.stderr, fmt.Sprintf(there, "rbac")) || strings.Contains(a.stdout+a.stderr, "forbidden") {
		t.Errorf("runbook: exit %d: %s%s", a.exit, a.stdout, a.stderr)
	}
	a = call(t, append(as, "preflight", "--node", "node-b", "--via", "pod,neighbour,shell,clean", "-o", "wide")...)
	said("preflight", "rbac", a)
	if strings.Contains(a.stdout, "warn") || !strings.Contains(a.folded(), "a pod in namespace calico-probe is admitted") {
		t.Errorf("preflight: %s", a.stdout)
	}
	nothingLeft(t)
	if after := state(t); after != before {
		t.Errorf("something else was taken too: %s, before %s", after, before)
	}
	kubectl(t, "", "label", "namespace", "kube-system", "pod-security.kubernetes.io/enforce=baseline")
	defer kubectl(t, "", "label", "namespace", "kube-system", "pod-security.kubernetes.io/enforce-")
	d, a = report(t, "run", "--node", "node-b", "--skip", "node-load")
	said("policy", "admission", a)
	d.want(t, "probe-placed", probe.OK, "pod: ", "pod calico-probe/calico-probe-node-b-")
}

// lesser is a user who lacks one right of a use.
type lesser struct {
	user  string
	use   string
	right install.Right
}

func (l lesser) objects(t *testing.T) []runtime.Object {
	t.Helper()
	uses, err := install.Named(l.use, "pod")
	if err != nil {
		t.Fatal(err)
	}
	for i := range uses {
		if uses[i].Name == l.use {
			uses[i].Rights = slices.DeleteFunc(slices.Clone(uses[i].Rights),
				func(r install.Right) bool { return r.In == l.right.In && r.String() == l.right.String() })
		}
	}
	if l.use == "clean" { // or the pod's would do
		uses = slices.DeleteFunc(uses, func(u install.Use) bool { return u.Name == "pod" })
	}
	objects := install.Objects(install.Options{Uses: uses, Namespace: install.Namespace,
		CalicoNamespace: install.CalicoNamespace,
		Subjects:        []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: l.user}}})[1:]
	for _, object := range objects {
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			o.Name += ":" + l.user
		case *rbacv1.Role:
			o.Name += ":" + l.user
		case *rbacv1.ClusterRoleBinding:
			o.Name, o.RoleRef.Name = o.Name+":"+l.user, o.RoleRef.Name+":"+l.user
		case *rbacv1.RoleBinding:
			o.Name, o.RoleRef.Name = o.Name+":"+l.user, o.RoleRef.Name+":"+l.user
		default:
			t.Fatalf("%T", object)
		}
	}
	return objects
}

// unsaid are rights that a good run on a healthy node does without, and why.
var unsaid = map[string]string{
	"get pods":                                     "no address is borrowed, no connection is lost",
	"list leases.coordination.k8s.io":              "only a list of nodes takes it",
	"list felixconfigurations.projectcalico.org":   "Felix answers at its default port",
	"list ipamblocks.projectcalico.org":            "every route is that of a node's own block",
	"list networkpolicies.networking.k8s.io":       "nothing is refused",
	"list networkpolicies.projectcalico.org":       "nothing is refused",
	"list globalnetworkpolicies.projectcalico.org": "nothing is refused",
	"list events":                                  "the probe starts; but see below",
	"get pods/attach":                              "the connection is made by SPDY",
	"get pods/exec":                                "the connection is made by SPDY",
	"get pods/log":                                 "no answer breaks off",
	"patch jobs.batch":                             "it is over before the deadline is moved on; but see below",
}

func (l lesser) isTold(t *testing.T) {
	as := []string{"--as", l.user, "-n", install.Namespace}
	resource := l.right.Resource
	want := fmt.Sprintf("cannot %s resource %q", l.right.Verb, resource)
	if l.right.Verb == "watch" || l.use == "pod" && l.right.Resource == "pods" && l.right.Verb == "delete" {
		want = "no right to " + l.right.Verb + " pod"
	}
	if l.use == "kubelet" {
		want = "no right to get nodes/proxy"
	}
	var a answer
	switch l.use {
	case "clean":
		leave(t)
		a = call(t, "clean", as[0], as[1])
		if a.exit != 1 {
			t.Errorf("clean: exit %d, want 1", a.exit)
		}
	case "serve": // which TestAlerts runs
		config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
		if err != nil {
			t.Fatal(err)
		}
		config.Impersonate.UserName = l.user
		client, err := injector.NewClient(config)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first is created, the second takes its place
			_, err = injector.NewEventWriter(client).Write(t.Context(), "lacks-"+l.right.Verb, "node-b", false,
				"CalicoProbeHealthy", "all is well")
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("an event that is refused: %v", err)
		}
	default:
		way := l.use
		args := append(as, "run", "--node", "node-b", "--baselines", "0", "--skip", "node-load")
		if way == "api" {
			way = "pod"
		} else {
			args = append(args, "--checks", map[bool]string{true: "kubelet-health", false: "felix-live"}[way == "kubelet"])
		}
		a = call(t, append(args, "--via", way, "-o", "json")...)
		switch {
		case l.right.Without == "" && a.exit != 5 && a.exit != 1:
			t.Errorf("exit %d without what the way cannot do without: %s", a.exit, a.stdout)
		case l.right.Without != "" && l.use != "api" && a.exit != 0:
			t.Errorf("exit %d, want the way to work: %s%s", a.exit, a.stdout, a.stderr)
		}
	}
	if l.use == "pod" && l.right.String() == "patch jobs.batch" { // the deadline is moved on after 15 seconds
		if a := shellFed(t, "ping -i 1s -c 18 10.88.0.11\n", append(as, "--node", "node-b", "--via", "pod")...); !strings.Contains(a.stderr, "no right to patch jobs") {
			t.Errorf("exit %d: %s%s", a.exit, a.stdout, a.stderr)
		}
	}
	if l.use == "pod" && resource == "events" { // no registry is at that address, which takes seconds to see
		a = call(t, append(as, "run", "--node", "node-b", "--via", "pod", "--image", "10.88.0.250/none:1",
			"--start-timeout", "10s")...)
		if a.exit != 5 || !strings.Contains(a.stderr, "no right to list events in namespace "+install.Namespace) {
			t.Errorf("exit %d: %s%s", a.exit, a.stdout, a.stderr)
		}
	}
	if l.use != "serve" && unsaid[l.right.String()] == "" && !strings.Contains(a.folded()+a.stderr, want) &&
		!strings.Contains(a.folded()+a.stderr, strings.ReplaceAll(want, `"`, `\"`)) {
		t.Errorf("nobody says that it %s: %.2000s\n%s", want, a.stdout, a.stderr)
	}
	for line := range strings.Lines(a.stderr) {
		if !strings.HasPrefix(line, "calico-probe: ") {
			t.Errorf("not one line: %s", a.stderr)
		}
	}
	if l.use == "clean" {
		return
	}
	a = call(t, append(as, "preflight", "--node", "node-b", "--via", l.use)...)
	if !strings.Contains(a.stdout+a.stderr, l.right.String()) {
		t.Errorf("preflight does not name it: %s%s", a.stdout, a.stderr)
	}
	if l.right.Without == "" && a.exit != 3 {
		t.Errorf("preflight exits with %d, want 3: %s%s", a.exit, a.stdout, a.stderr)
	}
}

// leave makes a pod and a job as a killed client leaves them: their time is over.
func leave(t *testing.T) {
	t.Helper()
	over := map[string]string{"calico-probe.io/node": "node-b", "calico-probe.io/expires": "2020-01-01T00:00:00Z"}
	pod := leftover(t, install.Namespace, "00000000", over)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Labels: pod.Labels, Annotations: over},
		Spec:       batchv1.JobSpec{Suspend: new(true), Template: corev1.PodTemplateSpec{Spec: neverRuns()}},
	}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if _, err := kube(t).BatchV1().Jobs(install.Namespace).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if a := call(t, "clean", "-n", install.Namespace); a.exit != 0 {
			t.Error(a.stderr)
		}
	})
}

// state lists what a dry run might change: our objects, and pods that could get an ephemeral container.
func state(t *testing.T) string {
	t.Helper()
	pods, err := kube(t).CoreV1().Pods("kube-system").List(t.Context(),
		metav1.ListOptions{LabelSelector: "k8s-app=calico-node"})
	if err != nil {
		t.Fatal(err)
	}
	text := left(t)
	for _, p := range pods.Items {
		text += fmt.Sprintf(" %s %d", p.Name, p.Generation)
	}
	return text
}
