package install

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

var update = flag.Bool("update", false, "write what is generated instead of comparing it")

// TestDocsAndManifests compares deploy/ and the table in docs/install.md with the rights; 'make docs' writes them.
func TestDocsAndManifests(t *testing.T) {
	t.Parallel()
	files, err := generated(Serve{Image: probe.ClientImage, ProbeImage: probe.Image, Admit: []string{AlertsFrom}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		same(t, filepath.Join("../../deploy", name), string(want))
	}
	const doc = "../../docs/install.md"
	text := read(t, doc)
	head, rest, begins := strings.Cut(text, "<!-- rights -->\n")
	_, tail, ends := strings.Cut(rest, "<!-- /rights -->")
	if !begins || !ends {
		t.Fatalf("%s has no place for the table of rights", doc)
	}
	same(t, doc, head+"<!-- rights -->\n"+rightsTable()+"<!-- /rights -->"+tail)
}

func same(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		must.Do(t, os.WriteFile(name, []byte(want), 0o644))
		return
	}
	if read(t, name) != want {
		t.Errorf("%s is stale: run 'make docs'", name)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b := must.Get(os.ReadFile(name))(t)
	return string(b)
}

// TestServeIsNotPeople requires 'serve' to have all its roles, and people no more because of it: anyone who may
// create its pods can become root on nodes.
func TestServeIsNotPeople(t *testing.T) {
	t.Parallel()
	uses := must.Get(Named("api"))(t)
	people := must.Get(Subject(rbacv1.GroupKind, "readers"))(t)
	o := Options{Uses: uses, Namespace: Namespace, CalicoNamespace: CalicoNamespace, Subjects: []rbacv1.Subject{people}}
	objects := must.Get(ServeObjects(o, Serve{}))(t)
	made, bound := map[string]bool{}, map[string][]string{}
	add := func(to []rbacv1.Subject, kind, namespace, name string) {
		for _, s := range to {
			bound[s.Name] = append(bound[s.Name], kind+" "+namespace+"/"+name)
		}
	}
	for _, object := range append(Objects(o), objects...) {
		switch b := object.(type) {
		case *rbacv1.ClusterRole:
			made["ClusterRole /"+b.Name] = true
		case *rbacv1.Role:
			made["Role "+b.Namespace+"/"+b.Name] = true
		case *rbacv1.ClusterRoleBinding:
			add(b.Subjects, b.RoleRef.Kind, "", b.RoleRef.Name)
		case *rbacv1.RoleBinding:
			add(b.Subjects, b.RoleRef.Kind, b.Namespace, b.RoleRef.Name)
		}
	}
	for who, roles := range bound {
		for _, role := range roles {
			if !made[role] || who == "readers" && !strings.HasSuffix(role, "calico-probe:api") {
				t.Errorf("%s has %s, and there are %v", who, role, made)
			}
		}
	}
	if len(bound["readers"]) == 0 || len(bound[serveName]) != len(made) {
		t.Errorf("bound are %v to %v", bound, made)
	}
	for _, role := range bound[serveName] {
		_, use, _ := strings.Cut(role, "calico-probe:")
		if !slices.Contains([]string{"api", "pod", "serve"}, use) {
			t.Errorf("serve has %s", role)
		}
	}
}

// TestServeManifest requires the images where they are used, and the port open only to admitted sources.
func TestServeManifest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		serve     Serve
		want, not []string
	}{
		{Serve{Image: "x/client", ProbeImage: "x/probe"}, []string{
			"image: x/client", "- --image\n        - x/probe\n", "kind: PersistentVolumeClaim", "claimName: " + serveName,
			"- --external-url\n        - https://calico-probe-serve.calico-probe.svc:8080\n", "optional: true\n          secretName: calico-probe-serve-read",
			"- --tls-cert\n", "secretName: calico-probe-serve-tls", "targetPort: https", "- podSelector: {}\n    ports:\n    - port: https\n", "port: health",
		}, []string{"storageClassName", "insecure-http", "namespaceSelector"}},
		{Serve{Admit: []string{"ops", "10.1.2.3/8"}}, []string{"kubernetes.io/metadata.name: ops\n", "cidr: 10.0.0.0/8\n"}, []string{AlertsFrom}},
	} {
		objects := must.Get(ServeObjects(Options{Namespace: Namespace, CalicoNamespace: CalicoNamespace}, c.serve))(t)
		b := must.Get(YAML(objects))(t)
		for _, text := range c.want {
			if !strings.Contains(string(b), text) {
				t.Errorf("%+v lacks %q:\n%s", c.serve, text, b)
			}
		}
		for _, text := range c.not {
			if strings.Contains(string(b), text) {
				t.Errorf("%+v has %q", c.serve, text)
			}
		}
	}
}

// TestServeAnyCalico requires that the rights of 'serve' suffice for calico-node in any namespace: no right is bound to
// the default namespace.
func TestServeAnyCalico(t *testing.T) {
	t.Parallel()
	uses := must.Get(Named(serveUses()...))(t)
	for _, use := range uses {
		for _, right := range use.Rights {
			if right.In == Calico {
				t.Errorf("%s may %s only in namespace %s, and calico-node may run in another", use.Name, right, CalicoNamespace)
			}
		}
	}
}

// TestServeMemory requires Go's soft memory limit to be a fifth below the container's limit, for memory that Go does
// not count, in the chart and in the manifests.
func TestServeMemory(t *testing.T) {
	t.Parallel()
	var values struct {
		Serve struct {
			GoMemory  string
			Resources struct{ Limits struct{ Memory string } }
		}
	}
	must.Do(t, yaml.Unmarshal([]byte(read(t, "../../deploy/helm/calico-probe/values.yaml")), &values))
	c := servePod(Options{Namespace: Namespace, CalicoNamespace: CalicoNamespace}, Serve{}).Containers[0]
	for where, have := range map[string][2]string{
		"manifests": {c.Env[0].Value, c.Resources.Limits.Memory().String()},
		"chart":     {values.Serve.GoMemory, values.Serve.Resources.Limits.Memory},
	} {
		kept, most := resource.MustParse(strings.TrimSuffix(have[0], "B")), resource.MustParse(have[1])
		if c.Env[0].Name != "GOMEMLIMIT" || kept.Value() > most.Value()*4/5 || kept.Value() < most.Value()*3/4 {
			t.Errorf("%s: %s is %s, the container's limit %s", where, c.Env[0].Name, have[0], have[1])
		}
	}
}

// TestLeastRights requires no wildcards, no duplicates in a use, no right to secrets, and no write access to the whole
// cluster.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	for _, u := range Uses() {
		var seen []string
		for _, r := range u.Rights {
			name := string(r.In) + " " + r.String()
			if slices.Contains(seen, name) {
				t.Errorf("%s has twice: %s", u.Name, name)
			}
			seen = append(seen, name)
			if strings.Contains(name, "*") || strings.Contains(name, "secret") {
				t.Errorf("%s: %s", u.Name, name)
			}
			// A review is asked by 'create', and nothing is written; a Node is in no namespace.
			condition := u.Name == "conditions" && r.Resource == "nodes/status" && r.Verb == "patch"
			if r.In == Cluster && r.Resource != "subjectaccessreviews" && !condition &&
				!slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
				t.Errorf("%s writes on the whole cluster: %s", u.Name, name)
			}
		}
		for _, in := range scopes {
			for _, rule := range rulesIn(u.Rights, in) {
				// The settings and accounts of workloads are others' too: only Calico's, by name.
				others := slices.Contains(rule.Resources, "configmaps") || slices.Contains(rule.Resources, "serviceaccounts")
				if others && len(rule.ResourceNames) == 0 {
					t.Errorf("%s: any of %v", u.Name, rule.Resources)
				}
			}
		}
		if u.As != "" && len(u.Rights) > 0 {
			t.Errorf("%s has rights of its own and those of %s", u.Name, u.As)
		}
	}
}

// TestNamed requires api with every use, resolves an alias, and rejects a misspelled name with a list.
func TestNamed(t *testing.T) {
	t.Parallel()
	uses := must.Get(Named("outside", "pod", "ssh"))(t)
	var names []string
	for _, u := range uses {
		names = append(names, u.Name)
	}
	if !slices.Equal(names, []string{"api", "pod"}) {
		t.Errorf("got %v", names)
	}
	if _, err := Named("pods"); err == nil || !strings.Contains(err.Error(), "ephemeral") {
		t.Errorf("got %v", err)
	}
}

// TestNamespaceIsMade requires that only the probe's own namespace is relabelled or deleted.
func TestNamespaceIsMade(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		Namespace: true, "ops": true, "default": false, "kube-system": false, "kube-public": false, "calico-system": false,
	} {
		o := Options{Namespace: name, CalicoNamespace: "calico-system"}
		_, made := Objects(Options{
			Uses: Uses()[:1], Namespace: name, CalicoNamespace: "calico-system",
		})[0].(*corev1.Namespace)
		if made != want || o.Makes() != want {
			t.Errorf("%s: %v, want %v", name, made, want)
		}
	}
	if (Options{Namespace: "ops", Existing: true}).Makes() {
		t.Error("one that is there is made")
	}
}

// TestBeside requires that installations in two namespaces share no object.
func TestBeside(t *testing.T) {
	t.Parallel()
	to := must.Get(Subject(rbacv1.GroupKind, "on-call"))(t)
	by := map[string]string{}
	for _, namespace := range []string{Namespace, "ops"} {
		o := Options{Uses: Uses(), Namespace: namespace, CalicoNamespace: CalicoNamespace, Subjects: []rbacv1.Subject{to}}
		serve := must.Get(ServeObjects(o, Serve{}))(t)
		for _, object := range append(Objects(o), serve...) {
			m := must.Get(meta.Accessor(object))(t)
			name := object.GetObjectKind().GroupVersionKind().Kind + " " + m.GetNamespace() + "/" + m.GetName()
			if by[name] != "" {
				t.Errorf("%s is of %s and of %s", name, by[name], namespace)
			}
			by[name] = namespace
		}
	}
	if by["ClusterRole /calico-probe:api"] != Namespace || by["ClusterRoleBinding /calico-probe-serve:ops:api"] != "ops" {
		t.Errorf("%v", by)
	}
}

func TestSubject(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, name string
		want       rbacv1.Subject
	}{
		{rbacv1.UserKind, "jane", rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "jane"}},
		{rbacv1.GroupKind, "on:call", rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "on:call"}},
		{rbacv1.ServiceAccountKind, "ops:runner", rbacv1.Subject{Kind: "ServiceAccount", Namespace: "ops", Name: "runner"}},
	} {
		if got, err := Subject(c.kind, c.name); err != nil || got != c.want {
			t.Errorf("%s %s: %+v, %v", c.kind, c.name, got, err)
		}
	}
	for _, bad := range [][2]string{
		{rbacv1.ServiceAccountKind, "runner"}, {rbacv1.ServiceAccountKind, ":x"}, {rbacv1.UserKind, ""},
	} {
		if got, err := Subject(bad[0], bad[1]); err == nil {
			t.Errorf("%v: %+v", bad, got)
		}
	}
}

// TestChart requires each use in the chart's values, and by default those for people.
func TestChart(t *testing.T) {
	t.Parallel()
	var schema struct {
		Properties struct {
			Methods struct{ Items struct{ Enum []string } }
		}
	}
	must.Do(t, json.Unmarshal([]byte(read(t, "../../deploy/helm/calico-probe/values.schema.json")), &schema))
	if got := schema.Properties.Methods.Items.Enum; !slices.Equal(got, Names()) {
		t.Errorf("values.schema.json takes the ways %v, internal/install/rights.go has %v", got, Names())
	}
	var values struct{ Methods []string }
	must.Do(t, yaml.Unmarshal([]byte(read(t, "../../deploy/helm/calico-probe/values.yaml")), &values))
	if !slices.Equal(values.Methods, People()) {
		t.Errorf("values.yaml has the ways %v, internal/install/rights.go %v", values.Methods, People())
	}
}

// TestOneVersion requires everything in a release to have the program's version.
func TestOneVersion(t *testing.T) {
	t.Parallel()
	var chart struct{ Version, AppVersion string }
	must.Do(t, yaml.Unmarshal([]byte(read(t, "../../deploy/helm/calico-probe/Chart.yaml")), &chart))
	if chart.Version != probe.Release || chart.AppVersion != probe.Release {
		t.Errorf("Chart.yaml is of %s for %s, the program is %s", chart.Version, chart.AppVersion, probe.Release)
	}
	image := regexp.MustCompile(`ghcr\.io/calico-probe/[a-z-]+:(\S+)`)
	must.Do(t, filepath.WalkDir("../../deploy", func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		for _, m := range image.FindAllStringSubmatch(read(t, name), -1) {
			if m[1] != probe.Release {
				t.Errorf("%s names %s, the program is %s", name, m[0], probe.Release)
			}
		}
		return nil
	}))
}
