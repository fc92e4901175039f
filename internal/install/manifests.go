package install

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Options choose which rights are granted, in which namespaces and to whom.
type Options struct {
	Uses            []Use // from Named; granted to Subjects
	Namespace       string
	CalicoNamespace string
	Existing        bool             // the namespace exists, and its owner decides what it admits
	Subjects        []rbacv1.Subject // nil = only the roles, for an administrator to bind
}

// Defaults of Options.
const (
	Namespace       = "calico-probe"
	CalicoNamespace = metav1.NamespaceSystem
)

// podSecurity is the version of the Pod Security Standards in the namespace's labels. It is the first stable version.
// "privileged" means the same in all versions.
const podSecurity = "v1.25"

// Objects returns the namespace, a role for each use in each of its scopes, the bindings of these roles, and the policy
// for the accounts with the use conditions.
func Objects(o Options) []runtime.Object {
	var out []runtime.Object
	if o.Makes() {
		out = append(out, namespaceFor(o.Namespace))
	}
	for _, u := range o.Uses {
		for _, in := range scopes {
			rules := rulesIn(u.Rights, in)
			if len(rules) == 0 {
				continue
			}
			meta := metav1.ObjectMeta{Name: o.role(u.Name), Namespace: o.where(in), Labels: labels()}
			if in == Cluster {
				out = append(out, &rbacv1.ClusterRole{TypeMeta: rbac("ClusterRole"), ObjectMeta: meta, Rules: rules})
			} else {
				out = append(out, &rbacv1.Role{TypeMeta: rbac("Role"), ObjectMeta: meta, Rules: rules})
			}
			if len(o.Subjects) == 0 {
				continue
			}
			ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}
			if in == Cluster {
				ref.Kind = "ClusterRole"
				out = append(out, &rbacv1.ClusterRoleBinding{
					TypeMeta: rbac("ClusterRoleBinding"), ObjectMeta: meta, Subjects: o.Subjects, RoleRef: ref,
				})
			} else {
				out = append(out, &rbacv1.RoleBinding{
					TypeMeta: rbac("RoleBinding"), ObjectMeta: meta, Subjects: o.Subjects, RoleRef: ref,
				})
			}
		}
	}
	return append(out, o.policyObjects()...)
}

// Makes reports whether the objects include the probe's namespace. They never include a namespace of Kubernetes or
// Calico: applying the manifests would relabel it, and deleting the manifests would delete it.
func (o Options) Makes() bool {
	return !o.Existing && o.Namespace != metav1.NamespaceDefault && !strings.HasPrefix(o.Namespace, "kube-") &&
		o.Namespace != o.CalicoNamespace
}

// Where returns a scope's namespace, or "" for the whole cluster.
func (s Scope) Where(namespace, calico string) string {
	switch s {
	case Cluster:
		return ""
	case Probe:
		return namespace
	case Calico:
		return calico
	}
	return string(s)
}

func (o Options) where(in Scope) string { return in.Where(o.Namespace, o.CalicoNamespace) }

// role returns the name of a use's roles. Some roles are cluster-wide, or in namespaces that installations share. So if
// an installation is outside the default namespace, its roles' names contain its namespace.
func (o Options) role(use string) string {
	if o.Namespace == Namespace {
		return "calico-probe:" + use
	}
	return "calico-probe:" + o.Namespace + ":" + use
}

func rbac(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// labels returns the labels that mark the installation's objects. Probes have other labels, which 'clean' selects.
func labels() map[string]string {
	return map[string]string{"app.kubernetes.io/part-of": "calico-probe"}
}

// namespaceFor returns a namespace that allows privileged pods, because probes use the node's network and read its
// files.
func namespaceFor(name string) *corev1.Namespace {
	all := labels()
	maps.Copy(all, podSecurityLabels())
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: all},
	}
}

func podSecurityLabels() map[string]string {
	all := map[string]string{}
	for _, mode := range []string{"enforce", "audit", "warn"} {
		all["pod-security.kubernetes.io/"+mode] = "privileged"
		all["pod-security.kubernetes.io/"+mode+"-version"] = podSecurity
	}
	return all
}

// Subject returns a user, group or service account in RBAC's form. kind is one of these three. A service account's name
// is NAMESPACE:NAME.
func Subject(kind, name string) (rbacv1.Subject, error) {
	s := rbacv1.Subject{Kind: kind, APIGroup: rbacv1.GroupName, Name: name}
	if kind == rbacv1.ServiceAccountKind {
		namespace, of, ok := strings.Cut(name, ":")
		if !ok || namespace == "" || of == "" {
			return s, fmt.Errorf("%q is not a service account: use NAMESPACE:NAME", name)
		}
		s.APIGroup, s.Namespace, s.Name = "", namespace, of
	}
	if s.Name == "" {
		return s, fmt.Errorf("a %s without a name", strings.ToLower(kind))
	}
	return s, nil
}

// YAML encodes objects as documents for 'kubectl apply -f -'.
func YAML(objects []runtime.Object) ([]byte, error) {
	var docs []string
	for _, object := range objects {
		b, err := json.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("encoding a manifest: %w", err)
		}
		var fields map[string]any
		if err := json.Unmarshal(b, &fields); err != nil {
			return nil, fmt.Errorf("encoding a manifest: %w", err)
		}
		delete(fields, "status")
		b, err = yaml.Marshal(pruned(fields))
		if err != nil {
			return nil, fmt.Errorf("encoding a manifest: %w", err)
		}
		docs = append(docs, string(b))
	}
	return []byte(strings.Join(docs, "---\n")), nil
}

// pruned removes empty fields that Go's types encode although they are not set.
func pruned(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range []string{"spec", "strategy", "resources"} {
			if m, ok := v[name].(map[string]any); ok && len(m) == 0 {
				delete(v, name)
			}
		}
		for name, x := range v {
			if v[name] = pruned(x); x == nil {
				delete(v, name)
			}
		}
	case []any:
		for i := range v {
			v[i] = pruned(v[i])
		}
	}
	return v
}

// rightsTable returns a Markdown table with each use's rights, their scope, and what does not work without a right.
func rightsTable() string {
	var b strings.Builder
	b.WriteString("| use | may | where | without it |\n|---|---|---|---|\n")
	for _, u := range Uses() {
		if len(u.Rights) == 0 {
			same := cmp.Or(u.As, "api")
			fmt.Fprintf(&b, "| `%s` | as `%s` | | |\n", u.Name, same)
			continue
		}
		type row struct{ may, where, without string }
		var rows []row
		for _, r := range u.Rights {
			next := row{
				"", map[Scope]string{
					Cluster: "the cluster", Probe: "the probe's namespace", Calico: "calico-node's namespace",
				}[r.In], cmp.Or(r.Without, "**it does not work**"),
			}
			next.where = cmp.Or(next.where, "namespace "+string(r.In))
			may := "`" + r.Verb + " " + r.Resource + "`"
			if slices.Equal(r.Groups, calicoGroups) {
				may += " of Calico"
			}
			if len(r.Names) > 0 {
				may += " named " + strings.Join(r.Names, ", ")
			}
			if i := len(rows) - 1; i >= 0 && rows[i].where == next.where && rows[i].without == next.without {
				rows[i].may += ", " + may
				continue
			}
			next.may = may
			rows = append(rows, next)
		}
		for i, r := range rows {
			name := ""
			if i == 0 {
				name = "`" + u.Name + "`"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, r.may, r.where, r.without)
		}
	}
	return b.String()
}
