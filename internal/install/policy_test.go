package install

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/calico-probe/calico-probe/internal/conditions"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestPolicy requires a policy and its binding only for service accounts that write conditions. TestConditions tests
// its effect on a cluster.
func TestPolicy(t *testing.T) {
	t.Parallel()
	if conditionType != conditions.Type || pendingKey != conditions.PendingKey {
		t.Errorf("the policy admits %s and %s", conditionType, pendingKey)
	}
	account := must.Get(Subject(rbacv1.ServiceAccountKind, "ops:conditions"))(t)
	user := must.Get(Subject(rbacv1.UserKind, "jane"))(t)
	for what, c := range map[string]struct {
		use, namespace string
		subjects       []rbacv1.Subject
		name           string // "" = there is no policy
	}{
		"an account":      {"conditions", Namespace, []rbacv1.Subject{user, account}, "calico-probe-conditions"},
		"elsewhere":       {"conditions", "ops", []rbacv1.Subject{account}, "calico-probe-ops-conditions"},
		"a person":        {"conditions", Namespace, []rbacv1.Subject{user}, ""},
		"another use":     {"pod", Namespace, []rbacv1.Subject{account}, ""},
		"the roles alone": {"conditions", Namespace, nil, ""},
	} {
		uses := must.Get(Named(c.use))(t)
		name, bound := "", ""
		for _, object := range Objects(Options{Uses: uses, Namespace: c.namespace, Subjects: c.subjects}) {
			switch o := object.(type) {
			case *admissionv1.ValidatingAdmissionPolicy:
				name = o.Name
				if of := o.Spec.MatchConditions[0].Expression; !strings.Contains(of, `["system:serviceaccount:ops:conditions"]`) {
					t.Errorf("%s: it is for %s", what, of)
				}
				if *o.Spec.FailurePolicy != admissionv1.Fail {
					t.Errorf("%s: what fails is admitted", what)
				}
			case *admissionv1.ValidatingAdmissionPolicyBinding:
				bound = o.Spec.PolicyName
			}
		}
		if name != c.name || bound != c.name {
			t.Errorf("%s: policy %q, bound %q, want %q", what, name, bound, c.name)
		}
	}
}
