//go:build e2e

package e2e

import (
	"os"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/calico-probe/calico-probe/internal/conditions"
	"github.com/calico-probe/calico-probe/internal/install"
)

// conditionsAccount is the account of TestConditions, as admission knows it.
const conditionsAccount = "system:serviceaccount:" + install.Namespace + ":calico-probe-conditions"

// patched returns the error of a strategic merge patch of node-a, of its status or of the object itself, made by the
// account and for validation only.
func patched(t testing.TB, patch, subresource string) error {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: conditionsAccount}
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.CoreV1().Nodes().Patch(t.Context(), "node-a", types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresource)
	return err
}

// isHeld reports whether the policy refused a patch.
func isHeld(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'calico-probe-conditions'")
}

// policyHolds requires that the policy refuses every write to a node that the account's rights permit, except to our
// condition and annotation. It requires the same if the account may also patch whole nodes.
func policyHolds(t *testing.T) {
	t.Helper()
	more := metav1.ObjectMeta{Name: "calico-probe-test-patch-nodes"}
	k := kube(t)
	if _, err := k.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: more,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"patch"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: more,
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: conditionsAccount}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: more.Name},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer kubectl(t, "", "delete", "clusterrole,clusterrolebinding", more.Name)
	const labels = `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`
	eventually(t, 30*time.Second, func() string { // a policy takes effect some time after it was created
		if err := patched(t, labels, "status"); !isHeld(err) {
			return "labels: not refused by the policy: " + errorText(err)
		}
		return ""
	})
	for what, patch := range map[string]string{
		"labels":             labels,
		"another annotation": `{"metadata":{"annotations":{"projectcalico.org/IPv4Address":"192.0.2.1/24"}}}`,
		"an annotation less": `{"metadata":{"annotations":{"projectcalico.org/IPv4Address":null}}}`,
		"a finalizer":        `{"metadata":{"finalizers":["example.com/x"]}}`,
		"Ready":              `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`,
		"Ready beside ours": `{"status":{"conditions":[{"type":"Ready","status":"False"},{"type":"CalicoHealthy",` +
			`"status":"True"}]}}`,
		"no Ready":           `{"status":{"conditions":[{"type":"Ready","$patch":"delete"}]}}`,
		"another condition":  `{"status":{"conditions":[{"type":"NetworkUnavailable","status":"True"}]}}`,
		"addresses":          `{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"}]}}`,
		"the kubelet's port": `{"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":1}}}}`,
		"capacity":           `{"status":{"capacity":{"example.com/gpu":"8"}}}`,
		"allocatable":        `{"status":{"allocatable":{"pods":"1"}}}`,
		"images":             `{"status":{"images":[{"names":["example.com/x"],"sizeBytes":1}]}}`,
		"its version":        `{"status":{"nodeInfo":{"kubeletVersion":"v0.0.0"}}}`,
		"a long message": `{"status":{"conditions":[{"type":"CalicoHealthy","status":"False","message":"` +
			strings.Repeat("m", 2000) + `"}]}}`,
		"another status": `{"status":{"conditions":[{"type":"CalicoHealthy","status":"Maybe"}]}}`,
		"our annotation": `{"metadata":{"annotations":{"` + conditions.PendingKey + `":"a text of another form"}}}`,
		"volumes":        `{"status":{"volumesInUse":["kubernetes.io/csi/x"]}}`,
	} {
		if err := patched(t, patch, "status"); !isHeld(err) {
			t.Errorf("%s: not refused by the policy: %s", what, errorText(err))
		}
	}
	for what, patch := range map[string]string{
		"labels":        labels,
		"taints":        `{"spec":{"taints":[{"key":"x","effect":"NoExecute"}]}}`,
		"unschedulable": `{"spec":{"unschedulable":true}}`,
		"annotation":    `{"metadata":{"annotations":{"example.com/x":"y"}}}`,
		// By the subresource the API server itself ignores the managed fields of a request.
		"no managed fields": `{"metadata":{"managedFields":[{}]}}`,
	} {
		if err := patched(t, patch, ""); !isHeld(err) {
			t.Errorf("of the node itself, %s: not refused by the policy: %s", what, errorText(err))
		}
	}
	// By the subresource the API server itself leaves the spec as it is.
	if err := patched(t, `{"spec":{"taints":[{"key":"x","effect":"NoExecute"}]}}`, "status"); err != nil {
		t.Errorf("taints by the status: %v", err)
	}
	ours := `{"metadata":{"annotations":{"` + conditions.PendingKey + `":"False since 2026-11-26T03:00:00Z"}},` +
		`"status":{"conditions":[{"type":"` + conditions.Type + `","status":"True","reason":"Test"}]}}`
	if err := patched(t, ours, "status"); err != nil {
		t.Errorf("ours: %v", err)
	}
}

func errorText(err error) string {
	if err == nil {
		return "it was accepted"
	}
	return err.Error()
}
