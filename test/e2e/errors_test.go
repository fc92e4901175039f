//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// TestOneClearLine requires, for bad input and a missing cluster, one line that says what to do, an empty stdout and
// the documented exit code.
func TestOneClearLine(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(nowhere, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"x",
		"contexts":[{"name":"x","context":{"cluster":"x"}}],"clusters":[{"name":"x","cluster":{"server":"https://127.0.0.1:1"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args string
		exit int
		says string
	}{
		{"unknown node", "run --node node-c", 2, `no node "node-c" in this cluster, did you mean node-`},
		{"unreachable API", "run --node node-a --kubeconfig " + nowhere, 1, "127.0.0.1:1 cannot be reached (connection refused)"},
		{"no such kubeconfig", "run --node node-a --kubeconfig /nowhere", 1, "/nowhere"},
		{"no kubeconfig at all", "run --node node-a --context nowhere", 1, "nowhere"},
		{"wrong flag", "run --nod node-a", 2, "unknown flag: --nod"},
		{"wrong value", "run --node node-a --timeout soon", 2, "soon"},
		{"unknown check", "run --node node-a --checks bgp-sesion", 2, "did you mean bgp-session?"},
		{"unknown way", "run --node node-a --via exce", 2, "did you mean exec?"},
		{"an option for ssh", "run --node node-a --ssh -oProxyCommand=id", 2, "--ssh \"-oProxyCommand=id\" is not a valid destination"},
		{"no destination for ssh", "run --node node-a --ssh root@a;b", 2, "--ssh \"root@a;b\" is not a valid destination"},
		{"no such configuration of ssh", "run --node node-a --ssh-config /nowhere", 2, "/nowhere: no such file"},
		{"a way named twice", "run --node node-a --via pod,pod", 2, "names pod twice"},
		{"no way for a list", "run --node node-a --via pod,api", 2, "--via api cannot be part of a list"},
		{"an API nobody asks", "run --via local --context x", 2, "leave out --context"},
		{"unknown profile", "run --node node-a --profile full", 2, "quick, standard, deep"},
		{"profile and checks", "run --node node-a --profile deep --checks bgp", 2, "both select checks"},
		{"unknown format", "run --node node-a -o xml", 2, "use one of table, wide, markdown, "},
		{"unknown level", "run --node node-a --fail-on never", 2, "fail or warn"},
		{"no node", "run", 2, "--node NODE"},
		{"a bundle of nothing", "bundle", 2, "--node NODE"},
		{"a bundle of nothing without a cluster", "bundle --offline", 2, "--offline takes saved run files"},
		{"a bundle over another file", "bundle --node node-a --file /etc/hosts", 2, "/etc/hosts already exists"},
		{"a bundle to stdout", "bundle --node node-a --file -", 2, "--file takes a file name"},
		{"capture what", "capture --node node-a", 2, "takes one HOST, HOST:PORT or :PORT"},
		{"capture where", "capture 10.0.0.1", 2, "--node NODE"},
		{"capture by no probe", "capture --node node-a --via api 10.0.0.1", 2, "does not place a probe"},
		{"capture on itself", "capture --node node-a --peer node-a 10.0.0.1", 2, "--peer node-a is the same as --node"},
		{"capture in no time", "capture --node node-a --timeout 5s 10.0.0.1", 2, "is too short for --seconds 10"},
		{"capture for too long", "capture --node node-a --seconds 301 10.0.0.1", 2, "--seconds takes 1s to 5m0s"},
		{"capture into a folder", "capture --node node-a 10.0.0.1 -w /", 1, "it is a folder"},
		{"unknown verb", "fix", 2, `unknown command "fix"`},
		{"another way's check", "run --node node-a --via api --checks node-ready,bgp-session", 2, "--via api cannot run bgp-session"},
		{"a kubelet's check", "run --node node-a --via kubelet --checks node-swap,felix-live", 2, "--via kubelet cannot run felix-live"},
		{"a kubelet in a list", "run --node node-a --via pod,kubelet", 2, "--via kubelet cannot be part of a list"},
		{"no API, its check", "run --via local --checks node-ready,node-load", 2, "--via local cannot run node-ready"},
		{"the run's own check", "run --node node-a --checks probe-placed", 2, "answered by every run"},
		{"nothing to do", "run --node node-a --checks bgp-session --skip bgp-session", 2, "leave no check"},
		{"docs into what", "docs", 2, "docs takes one new or empty folder"},
		{"docs among other files", "docs /etc", 2, "/etc is not empty"},
		{"explain what", "explain nothing-known", 2, "'calico-probe checks' and 'calico-probe causes' list IDs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := call(t, strings.Fields(c.args)...)
			if a.exit != c.exit || !strings.Contains(a.stderr, c.says) {
				t.Errorf("exit %d, want %d with %q:\n%s", a.exit, c.exit, c.says, a.stderr)
			}
			if n := strings.Count(a.stderr, "\n"); n != 1 || a.stdout != "" {
				t.Errorf("%d lines of stderr, stdout %q:\n%s", n, a.stdout, a.stderr)
			}
		})
	}
}

// TestNoRightToCreatePods requires the API's results, and no verdict.
func TestNoRightToCreatePods(t *testing.T) {
	k := kube(t)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "e2e-reader"}, Rules: []rbacv1.PolicyRule{
		{
			APIGroups: []string{"", "coordination.k8s.io", "crd.projectcalico.org"}, Resources: []string{"*"},
			Verbs: []string{"get", "list", "watch"},
		},
	}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "e2e-reader"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "reader"}},
		RoleRef:  rbacv1.RoleRef{Kind: "ClusterRole", Name: "e2e-reader"}}
	if _, err := k.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10e9, func() string { // the authoriser's cache learns of it
		if a := call(t, "run", "--node", "node-a", "--via", "api", "--as", "reader"); a.exit != 0 {
			return a.stderr
		}
		return ""
	})
	d, a := report(t, "run", "--node", "node-a", "--as", "reader", "--via", "pod,ephemeral,exec")
	if a.exit != 5 {
		t.Errorf("exit %d, want 5\n%s", a.exit, a.stderr)
	}
	d.want(t, "node-ready", probe.OK)
	d.want(t, "probe-placed", probe.Unknown, "pods", "reader", "; nor in namespace calico-probe, which 'calico-probe manifests' prints: no right there either")

	a = call(t, "run", "--node", "node-a", "--via", "api", "--as", "nobody-at-all")
	if a.exit != 1 || !strings.Contains(a.stderr, "error: no right to list nodes; ") || !strings.Contains(a.stderr, "'calico-probe preflight'") || strings.Count(a.stderr, "\n") != 1 {
		t.Errorf("no rights at all: exit %d\n%s", a.exit, a.stderr)
	}
}

// TestMissingImage also requires that the run skips the access method that cannot be undone.
func TestMissingImage(t *testing.T) {
	d, a := report(t, "run", "--node", "node-a", "--image", "nowhere.invalid/probe:none", "--via", "pod,ephemeral,exec")
	if a.exit != 5 {
		t.Errorf("exit %d, want 5\n%s", a.exit, a.stderr)
	}
	d.want(t, "probe-placed", probe.Unknown, "nowhere.invalid/probe:none")
	d.want(t, "probe-placed", probe.Skip, "ephemeral: not tried")
	nothingLeft(t)
}

// TestRefusedByPolicy requires a finding for a refused pod, and that auto finds another access method.
func TestRefusedByPolicy(t *testing.T) {
	k := kube(t)
	for name, labels := range map[string]map[string]string{
		"e2e-restricted": {"pod-security.kubernetes.io/enforce": "restricted"},
		"e2e-full":       nil,
	} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if _, err := k.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")},
	}}
	if _, err := k.CoreV1().ResourceQuotas("e2e-full").Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, func() string { // before, a namespace refuses every pod for other reasons
		for _, ns := range []string{"e2e-restricted", "e2e-full"} {
			if _, err := k.CoreV1().ServiceAccounts(ns).Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
				return err.Error()
			}
		}
		quota, err := k.CoreV1().ResourceQuotas("e2e-full").Get(t.Context(), "none", metav1.GetOptions{})
		if err != nil || len(quota.Status.Hard) == 0 {
			return fmt.Sprint("the quota is not in force yet: ", err)
		}
		return ""
	})
	d, a := report(t, "run", "--node", "node-a", "-n", "e2e-restricted", "--via", "pod")
	if a.exit != 5 {
		t.Errorf("exit %d, want 5\n%s", a.exit, a.stderr)
	}
	d.want(t, "probe-placed", probe.Unknown, "PodSecurity")
	d, a = report(t, "run", "--node", "node-a", "-n", "e2e-restricted", "--skip", "node-load")
	if a.exit != 0 {
		t.Errorf("by auto: exit %d, want 0\n%s", a.exit, a.stderr)
	}
	d.want(t, "probe-placed", probe.Info, "PodSecurity")
	d.want(t, "probe-placed", probe.OK, "probe running after")
	d, _ = report(t, "run", "--node", "node-a", "-n", "e2e-full", "--via", "pod")
	d.want(t, "probe-placed", probe.Unknown, "quota")
	a = call(t, "run", "--node", "node-a", "-n", "not-there")
	if a.exit != 2 || !strings.Contains(a.stderr, `namespace "not-there" does not exist: omit -n`) {
		t.Errorf("no such namespace: exit %d, want 2\n%s", a.exit, a.stderr)
	}
}
