//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/conditions"
	"github.com/calico-probe/calico-probe/internal/install"
)

// healthOf returns the condition that calico-probe wrote on a node, nil = none.
func healthOf(t testing.TB, node string) *corev1.NodeCondition {
	t.Helper()
	n, err := kube(t).CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range n.Status.Conditions {
		if string(c.Type) == conditions.Type {
			return &c
		}
	}
	return nil
}

// wantsHealth waits for a condition, while what is given writes it anew.
func wantsHealth(t testing.TB, node string, status corev1.ConditionStatus, message string, write func()) {
	t.Helper()
	eventually(t, 3*time.Minute, func() string {
		write()
		c := healthOf(t, node)
		if c == nil || c.Status != status || !strings.Contains(c.Message, message) {
			return fmt.Sprintf("%s has %+v, want %s with %q", node, c, status, message)
		}
		return ""
	})
}

// TestConditions writes and removes conditions with an account that has only the rights from 'manifests', like a job in
// the cluster.
func TestConditions(t *testing.T) {
	slow(t)
	mustSandbox(t, "load", file(".cache/client-here.tar"))
	const name = "calico-probe-conditions"
	rights := call(t, "manifests", "--methods", "conditions", "--service-account", install.Namespace+":"+name)
	if rights.exit != 0 {
		t.Fatal(rights.stderr)
	}
	account := "---\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: calico-probe-conditions\n  namespace: " +
		install.Namespace + "\n"
	cron, err := os.ReadFile(file("deploy/conditions.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := rights.stdout + account + "---\n" + string(cron)
	t.Cleanup(func() {
		cmd := exec.Command(file(".cache/bin/kubectl"), "delete", "--ignore-not-found", "--timeout=2m", "-f", "-")
		cmd.Stdin = strings.NewReader(all)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("removing it: %v: %s", err, out)
		}
	})
	kubectl(t, all, "apply", "-f", "-")
	policyHolds(t)
	if a := call(t, "conditions", "--dry-run"); a.exit != 0 || healthOf(t, "node-a") != nil {
		t.Errorf("--dry-run: exit %d, %+v\n%s%s", a.exit, healthOf(t, "node-a"), a.stdout, a.stderr)
	}
	n := 0
	byJob := func() {
		n++
		job := fmt.Sprintf("once-%d", n)
		kubectl(t, "", "-n", install.Namespace, "create", "job", job, "--from=cronjob/calico-probe-conditions")
		kubectl(t, "", "-n", install.Namespace, "wait", "--for=condition=complete", "--timeout=60s", "job/"+job)
	}
	wantsHealth(t, "node-a", corev1.ConditionTrue, "", byJob)
	wantsHealth(t, "node-b", corev1.ConditionTrue, "", byJob)

	mustSandbox(t, "felix", "node-a", "503")
	t.Cleanup(func() { // others want a calico-node that was never killed
		mustSandbox(t, "felix", "node-a", "ok")
		for _, args := range [][]string{
			{"delete", "pod", "-l", "k8s-app=calico-node", "--field-selector", "spec.nodeName=node-a", "--timeout=1m"},
			{"rollout", "status", "daemonset/calico-node", "--timeout=2m"},
		} {
			cmd := exec.Command(file(".cache/bin/kubectl"), append([]string{"-n", "kube-system"}, args...)...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
	})
	as := []string{"--as", conditionsAccount}
	byHand := func() { call(t, append(as, "conditions")...) }
	wantsHealth(t, "node-a", corev1.ConditionFalse, "calico-node", func() { // all that the API says
		if byHand(); healthOf(t, "node-a").Status == corev1.ConditionTrue {
			time.Sleep(5 * time.Second) // two rounds that agree are half a minute apart
		}
	})
	if c := healthOf(t, "node-b"); c.Status != corev1.ConditionTrue {
		t.Errorf("node-b has %+v", c)
	}
	mustSandbox(t, "felix", "node-a", "ok")
	wantsHealth(t, "node-a", corev1.ConditionTrue, "", byHand)
	if a := call(t, append(as, "conditions", "--remove")...); a.exit != 0 || healthOf(t, "node-a") != nil {
		t.Errorf("--remove: exit %d, %+v\n%s%s", a.exit, healthOf(t, "node-a"), a.stdout, a.stderr)
	}
	if text := kubectl(t, "", "get", "nodes", "-o", "yaml"); strings.Contains(text, conditions.PendingKey) {
		t.Errorf("--remove leaves %s", conditions.PendingKey)
	}
}
