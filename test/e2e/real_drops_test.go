//go:build e2e

package e2e

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestRealDrops drops packets by policies of real Calico. The report must name each as the place of the drop, by
// counters and by the kernel's drop reason.
func TestRealDrops(t *testing.T) {
	onCalico(t)
	for _, c := range []struct{ name, object, place string }{
		{"a policy of Kubernetes'", `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: no-way-out, namespace: default}
spec: {podSelector: {}, policyTypes: [Egress]}
`, "default/no-way-out"},
		{"a policy of Calico's", `apiVersion: crd.projectcalico.org/v1
kind: GlobalNetworkPolicy
metadata: {name: no-pings}
spec:
  order: 10
  selector: projectcalico.org/namespace == "default"
  types: [Egress]
  egress: [{action: Deny, protocol: ICMP}, {action: Allow}]
`, "GlobalNetworkPolicy no-pings"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := podAddress(t, "workload-b")
			ask := "in default/workload-a drops " + b
			kubectl(t, c.object, "apply", "-f", "-")
			t.Cleanup(func() {
				cmd := exec.Command(file(".cache/bin/kubectl"), "delete", "--timeout=1m", "-f", "-")
				cmd.Stdin = strings.NewReader(c.object)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				eventually(t, time.Minute, func() string { // Felix has taken it back
					a := shellFed(t, "in default/workload-a ping "+b+"\n", "--node", "node-a")
					if a.exit != 0 {
						return a.stdout + a.stderr
					}
					return ""
				})
			})
			for _, ask := range []string{ask, strings.Replace(ask, "drops", "drops --trace", 1)} {
				eventually(t, time.Minute, func() string { // Felix has written it
					a := shellFed(t, ask+"\n", "--node", "node-a")
					if !strings.Contains(a.stdout, c.place) {
						return a.stdout + a.stderr
					}
					t.Logf("%s:\n%s", ask, a.stdout)
					return ""
				})
			}
		})
	}
}

// podAddress is the address of a pod of the namespace default.
func podAddress(t testing.TB, pod string) string {
	t.Helper()
	return strings.TrimSpace(kubectl(t, "", "get", "pod", pod, "-o", "jsonpath={.status.podIP}"))
}
