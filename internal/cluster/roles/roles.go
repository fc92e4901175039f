// Package roles reads an account's permissions from roles and bindings.
package roles

import (
	"context"
	"fmt"
	"slices"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// Reader reads roles and bindings. It lists the ClusterRoleBindings only once: a cluster may have thousands. The zero
// value is ready for use.
type Reader struct {
	mu       sync.Mutex
	bindings *rbacv1.ClusterRoleBindingList // nil = not listed yet
}

// Granted reads whether an account has some permissions, for users without permission to create subjectaccessreviews.
// It returns the answers in the same order, and ignores authorizers other than RBAC.
func (r *Reader) Granted(ctx context.Context, kube kubernetes.Interface, who Account,
	asks []authorizationv1.ResourceAttributes,
) ([]bool, error) {
	all, err := r.allBindings(ctx, kube)
	if err != nil {
		return nil, err
	}
	own := &rbacv1.RoleBindingList{}
	if who.Namespace != "" {
		own, err = kube.RbacV1().RoleBindings(who.Namespace).List(ctx, cached)
	}
	if err != nil {
		return nil, fmt.Errorf("listing RoleBindings of %s: %w", who.Namespace, err)
	}
	var everywhere, within []rbacv1.PolicyRule
	for _, b := range all {
		if everywhere, err = addRules(ctx, kube, everywhere, who, b.Subjects, b.RoleRef); err != nil {
			return nil, err
		}
	}
	for _, b := range own.Items {
		if within, err = addRules(ctx, kube, within, who, b.Subjects, b.RoleRef); err != nil {
			return nil, err
		}
	}
	may := make([]bool, len(asks))
	for i, ask := range asks {
		rules := everywhere
		if ask.Namespace == who.Namespace {
			rules = slices.Concat(everywhere, within)
		}
		may[i], _ = validation.Covers(rules, []rbacv1.PolicyRule{ruleFor(ask)})
	}
	return may, nil
}

// cached requests a list from the API server's cache.
var cached = metav1.ListOptions{ResourceVersion: "0"}

// allBindings returns the ClusterRoleBindings.
func (r *Reader) allBindings(ctx context.Context, kube kubernetes.Interface) ([]rbacv1.ClusterRoleBinding, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bindings == nil {
		all, err := kube.RbacV1().ClusterRoleBindings().List(ctx, cached)
		if err != nil {
			return nil, fmt.Errorf("listing ClusterRoleBindings: %w", err)
		}
		r.bindings = all
	}
	return r.bindings.Items, nil
}

// ruleFor returns the rule that grants exactly one permission.
func ruleFor(ask authorizationv1.ResourceAttributes) rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{Verbs: []string{ask.Verb}, APIGroups: []string{ask.Group}, Resources: []string{ask.Resource}}
	if ask.Subresource != "" {
		rule.Resources[0] += "/" + ask.Subresource
	}
	if ask.Name != "" {
		rule.ResourceNames = []string{ask.Name}
	}
	return rule
}

// addRules adds the rules of a role that a binding grants to an account. If the role is missing, it adds nothing.
func addRules(ctx context.Context, kube kubernetes.Interface, to []rbacv1.PolicyRule, who Account,
	subjects []rbacv1.Subject, role rbacv1.RoleRef,
) ([]rbacv1.PolicyRule, error) {
	if !slices.ContainsFunc(subjects, who.is) {
		return to, nil
	}
	var rules []rbacv1.PolicyRule
	var err error
	if role.Kind == "Role" {
		var r *rbacv1.Role
		if r, err = kube.RbacV1().Roles(who.Namespace).Get(ctx, role.Name, metav1.GetOptions{}); err == nil {
			rules = r.Rules
		}
	} else {
		var r *rbacv1.ClusterRole
		if r, err = kube.RbacV1().ClusterRoles().Get(ctx, role.Name, metav1.GetOptions{}); err == nil {
			rules = r.Rules
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading %s %s: %w", role.Kind, role.Name, err)
	}
	return append(to, rules...), nil
}

// Account is a ServiceAccount or, if it has no namespace, a user.
type Account struct{ Namespace, Name string }

// User returns the account's user name in the API server.
func (a Account) User() string {
	if a.Namespace == "" {
		return a.Name
	}
	return "system:serviceaccount:" + a.Namespace + ":" + a.Name
}

// Groups returns the account's groups in the API server.
func (a Account) Groups() []string {
	if a.Namespace == "" {
		return []string{"system:authenticated"}
	}
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + a.Namespace, "system:authenticated"}
}

// is reports whether a binding's subject is the account or one of the account's groups.
func (a Account) is(s rbacv1.Subject) bool {
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		return a.Namespace != "" && s.Namespace == a.Namespace && s.Name == a.Name
	case rbacv1.UserKind:
		return s.Name == a.User()
	}
	return s.Kind == rbacv1.GroupKind && slices.Contains(a.Groups(), s.Name)
}
