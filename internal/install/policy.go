package install

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// conditionsUse is the use that has a broader right than it needs, because RBAC cannot restrict a right to one
// condition.
const conditionsUse = "conditions"

// The names that the use writes to a Node. They are copied from package facts, which this package does not import.
// TestPolicy compares them.
const (
	conditionType = "CalicoHealthy"
	pendingKey    = "calico-probe.io/pending-condition"
)

// maxConditionMessage is the maximum length of the condition's message in characters, because every list of nodes
// contains the message. Our messages have about 450.
const maxConditionMessage = 1024

// policyRules returns rules that allow an update of a Node only if it changes only our condition and our annotation.
// The rules name what may change and compare everything else, so they also protect fields in later Kubernetes versions.
func policyRules() []admissionv1.Validation {
	kept := func(what, but string) string {
		return equalMaps("object."+what, "oldObject."+what, "k in ["+but+"]")
	}
	others := func(of string) string {
		return of + ".?status.?conditions.orValue([]).filter(c, c.type != '" + conditionType + "')"
	}
	notes := func(of string) string { return of + ".metadata.?annotations.orValue({})" }
	ours := func(of string) string {
		return of + ".?status.?conditions.orValue([]).filter(c, c.type == '" + conditionType + "')"
	}
	key := strconv.Quote(pendingKey)
	return []admissionv1.Validation{
		{Message: "only the condition " + conditionType + " may change",
			Expression: others("object") + " == " + others("oldObject")},
		{Message: "in the status, only a condition may change", Expression: kept("status", "'conditions'")},
		{Message: "the spec may not change", Expression: kept("spec", "")},
		{Message: "in the metadata, only an annotation may change",
			Expression: kept("metadata", "'annotations', 'managedFields', 'resourceVersion'")},
		{Message: "only the annotation " + pendingKey + " may change",
			Expression: equalMaps(notes("object"), notes("oldObject"), "k == "+key)},
		{Message: "the status must be True, False or Unknown, the reason one word, and the message short",
			Expression: ours("object") + " == " + ours("oldObject") + " || " + ours("object") +
				".all(c, size(" + ours("object") + ") == 1 && c.status in ['True', 'False', 'Unknown'] && c.?reason.orValue('').matches('^[A-Za-z0-9]{0,100}$') && " +
				fmt.Sprintf("size(c.?message.orValue('')) <= %d)", maxConditionMessage)},
		{Message: "the annotation " + pendingKey + " is a status and a time",
			Expression: fmt.Sprintf("%[1]s[?%[3]s] == %[2]s[?%[3]s] || %[1]s[?%[3]s].orValue('').matches("+
				"'^$|^(False|Unknown) since [0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$')",
				notes("object"), notes("oldObject"), key)},
		{Message: "managed fields of other managers may not change", Expression: keptManagers()},
	}
}

// keptManagers returns an expression that is true if other managers' managed fields do not change. The API server
// changes an entry that owns our condition or annotation. If there are more than 10 managers, it merges the oldest into
// one, ancient-changes.
func keptManagers() string {
	fields := func(of string) string { return of + ".metadata.?managedFields.orValue([])" }
	owns := `m.?fieldsV1[?'f:status'][?'f:conditions'][?'k:{"type":"` + conditionType + `"}'].hasValue() || ` +
		`m.?fieldsV1[?'f:metadata'][?'f:annotations'][?'f:` + pendingKey + `'].hasValue()`
	const merged = "ancient-changes"
	return fmt.Sprintf("%[1]s.all(m, m in %[2]s || %[3]s || m.?manager.orValue('') == '%[4]s') && "+
		"(%[1]s.exists(m, m.?manager.orValue('') == '%[4]s') || %[2]s.all(m, m in %[1]s || %[3]s))",
		fields("object"), fields("oldObject"), owns, merged)
}

// equalMaps returns an expression that is true if two maps are equal, except for keys for which but is true.
func equalMaps(a, b, but string) string {
	return fmt.Sprintf("%[1]s.all(k, %[3]s || k in %[2]s && %[1]s[k] == %[2]s[k]) && %[2]s.all(k, %[3]s || k in %[1]s)",
		a, b, but)
}

// policyNames returns the user names that the service accounts among subjects have in admission requests. The policy
// restricts only accounts that exist for this use. For a person or a group, it would also restrict rights that they
// have for other work.
func policyNames(subjects []rbacv1.Subject) []string {
	var out []string
	for _, s := range subjects {
		if s.Kind == rbacv1.ServiceAccountKind {
			out = append(out, "system:serviceaccount:"+s.Namespace+":"+s.Name)
		}
	}
	return out
}

// policyObjects returns the policy that restricts the service accounts with the use conditions, and the policy's
// binding. If there is no such account, it returns nothing.
func (o Options) policyObjects() []runtime.Object {
	names := policyNames(o.Subjects)
	if len(names) == 0 || !slices.ContainsFunc(o.Uses, func(u Use) bool { return u.Name == conditionsUse }) {
		return nil
	}
	var quoted []string
	for _, name := range names {
		quoted = append(quoted, strconv.Quote(name))
	}
	// Unlike names of roles, names of these kinds must not contain a colon.
	meta := metav1.ObjectMeta{Name: strings.ReplaceAll(o.role(conditionsUse), ":", "-"), Labels: labels()}
	kind := func(name string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: name}
	}
	fail := admissionv1.Fail
	return []runtime.Object{
		&admissionv1.ValidatingAdmissionPolicy{TypeMeta: kind("ValidatingAdmissionPolicy"), ObjectMeta: meta,
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: &fail,
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{admissionv1.Update},
						Rule: admissionv1.Rule{APIGroups: []string{corev1.GroupName}, APIVersions: []string{"v1"},
							Resources: []string{"nodes", "nodes/status"}},
					}}}},
				MatchConditions: []admissionv1.MatchCondition{{Name: "account",
					Expression: "request.userInfo.username in [" + strings.Join(quoted, ", ") + "]"}},
				Validations: policyRules(),
			}},
		&admissionv1.ValidatingAdmissionPolicyBinding{TypeMeta: kind("ValidatingAdmissionPolicyBinding"), ObjectMeta: meta,
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: meta.Name,
				ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}},
	}
}
