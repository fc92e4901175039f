package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe/must"
)

// example is the run that the README shows.
func example(t *testing.T) report.Saved {
	t.Helper()
	f := must.Get(os.Open("../../docs/example.ndjson"))(t)
	defer f.Close()
	saved := must.Get(report.Load(f))(t)
	return saved
}

// objectsOf are objects of a kind.
func objectsOf(t *testing.T, gvr schema.GroupVersionResource, kind string, namespaced bool,
	items ...string,
) cluster.Objects {
	t.Helper()
	o := cluster.Objects{GroupVersionResource: gvr, Kind: kind, Namespaced: namespaced}
	for _, item := range items {
		fields := object(t, item)
		fields["kind"], fields["apiVersion"] = kind, gvr.GroupVersion().String()
		o.Items = append(o.Items, unstructured.Unstructured{Object: fields})
	}
	return o
}

// given is a bundle's worth of everything.
func given(t *testing.T) Given {
	t.Helper()
	core := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Version: "v1", Resource: resource}
	}
	pool := schema.GroupVersionResource{Group: "crd.projectcalico.org", Version: "v1", Resource: "ippools"}
	policies := objectsOf(t, pool.GroupVersion().WithResource("networkpolicies"), "NetworkPolicy", true)
	policies.Gaps = []string{"no right to list networkpolicies.crd.projectcalico.org"}
	return Given{ID: "0a1b2c3d", At: time.Now(), Own: []string{"kube-system"}, Runs: []report.Saved{example(t)},
		Version: &version.Info{GitVersion: "v1.34.1"}, Objects: []cluster.Objects{
			objectsOf(t, core("nodes"), "Node", false, `{"metadata":{"name":"node-b","managedFields":[]}}`),
			objectsOf(t, core("pods"), "Pod", true, `{"metadata":{"name":"calico-node-x","namespace":"kube-system"},"spec":{"containers":[{"name":"calico-node","image":"calico/node"}]}}`,
				`{"metadata":{"name":"web","namespace":"shop"},"spec":{"containers":[{"name":"web","image":"corp/web"}]}}`),
			objectsOf(t, core("events"), "Event", true, `{"metadata":{"name":"e","namespace":"default"},"message":"x"}`),
			objectsOf(t, core("configmaps"), "ConfigMap", true, `{"metadata":{"name":"calico-config","namespace":"kube-system"},"data":{"veth_mtu":"0"}}`),
			objectsOf(t, schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}, "DaemonSet", true, `{"metadata":{"name":"calico-node","namespace":"kube-system"}}`),
			objectsOf(t, schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, "Lease", true, `{"metadata":{"name":"node-b","namespace":"kube-node-lease"}}`),
			objectsOf(t, pool, "IPPool", false, `{"metadata":{"name":"default"},"spec":{"cidr":"10.244.0.0/16"}}`), policies,
		}}
}

// unpacked are the files of a bundle as another program reads them, without its folder.
func unpacked(t *testing.T, b *Bundle) map[string][]byte {
	t.Helper()
	var archive bytes.Buffer
	must.Do(t, b.Write(&archive))
	packed := must.Get(gzip.NewReader(&archive))(t)
	out := map[string][]byte{}
	for in := tar.NewReader(packed); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		folder, name, _ := strings.Cut(head.Name, "/")
		odd := name == "" || path.Clean(name) != name || strings.HasPrefix(name, "..")
		if folder != "calico-probe-bundle-0a1b2c3d" || odd || head.Typeflag != tar.TypeReg {
			t.Errorf("a file that is not safe: %q (%c)", head.Name, head.Typeflag)
		}
		if head.Mode != 0o600 || head.Uid != 0 || head.Uname != "" || head.ModTime.IsZero() {
			t.Errorf("%s: %+v", name, head)
		}
		if out[name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
}

// causesOf are what a saved run comes to, said again.
func causesOf(t *testing.T, saved report.Saved) []string {
	t.Helper()
	var found Found
	must.Do(t, replay(saved, []report.Sink{&found}))
	return append(found.Causes, found.Word)
}

// TestReadBack requires that other programs can read a bundle: report.Load finds the same causes in runs, and
// Kubernetes' decoder reads the objects at the paths of a support bundle.
func TestReadBack(t *testing.T) {
	b, err := Make(given(t))
	if err != nil {
		t.Fatal(err)
	}
	files := unpacked(t, b)
	saved, err := report.Load(bytes.NewReader(files["run.ndjson"]))
	if err != nil {
		t.Fatal(err)
	}
	was, is := causesOf(t, example(t)), causesOf(t, saved)
	if !slices.Equal(was, is) || len(was) < 2 || saved.Runs[0].Lacks != "" {
		t.Errorf("%v, and again %v (%s)", was, is, saved.Runs[0].Lacks)
	}
	asJSON, err := report.Load(bytes.NewReader(files["report.json"]))
	if err != nil || !slices.Equal(was, causesOf(t, asJSON)) {
		t.Errorf("report.json: %v", err)
	}
	for name, want := range map[string]metav1.ListInterface{
		"cluster-resources/nodes.json":                  &corev1.NodeList{},
		"cluster-resources/pods/kube-system.json":       &corev1.PodList{},
		"cluster-resources/pods/shop.json":              &corev1.PodList{},
		"cluster-resources/events/default.json":         &corev1.EventList{},
		"cluster-resources/configmaps/kube-system.json": &corev1.ConfigMapList{},
		"cluster-resources/daemonsets/kube-system.json": &appsv1.DaemonSetList{},
		"cluster-resources/leases/kube-node-lease.json": &coordinationv1.LeaseList{},
	} {
		is, _, err := scheme.Codecs.UniversalDeserializer().Decode(files[name], nil, nil)
		if err != nil || fmt.Sprintf("%T", is) != fmt.Sprintf("%T", want) {
			t.Errorf("%s: %T, %v", name, is, err)
		}
	}
	var pools []unstructured.Unstructured
	if err := json.Unmarshal(files["cluster-resources/custom-resources/ippools.crd.projectcalico.org.json"], &pools); err != nil || len(pools) != 1 || pools[0].GetKind() != "IPPool" {
		t.Errorf("custom resources: %v, %v", pools, err)
	}
	if strings.Contains(string(files["cluster-resources/pods/shop.json"]), "corp/web") || !strings.Contains(string(files["cluster-resources/pods/kube-system.json"]), "calico/node") {
		t.Error("images of the wrong pods")
	}
	for name, text := range map[string]string{
		"version.yaml": "kind: SupportBundle", "cluster-info/cluster_version.json": `"string": "v1.34.1"`, "report.md": "node-b",
		"cluster-resources/groups.json": "crd.projectcalico.org", "cluster-resources/resources.json": `"kind": "IPPool"`,
		"redactions.txt": "node node-b: field metadata.managedFields",
		"README.md":      "`networkpolicies: no right to list networkpolicies.crd.projectcalico.org`",
	} {
		if !strings.Contains(string(files[name]), text) {
			t.Errorf("%s lacks %s:\n%s", name, text, files[name])
		}
	}
	if _, err := report.Find(report.Formats(), "html"); (err == nil) != (files["report.html"] != nil) {
		t.Errorf("report.html, where the format is: %v", err)
	}
}

// TestHostileNames requires that names from the cluster cannot act as a path, markup or a separate line.
func TestHostileNames(t *testing.T) {
	g := given(t)
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	g.Objects = []cluster.Objects{objectsOf(t, pods, "Pod", true,
		`{"metadata":{"name":"a","namespace":"../../etc"}}`, `{"metadata":{"name":"b","namespace":""}}`,
		`{"metadata":{"name":"c`+"\\n\\u001b[31m"+`","namespace":"shop"}}`)}
	g.Gaps = []string{"x`\n# heading ![](http://evil.example)"}
	b := must.Get(Make(g))(t)
	files := unpacked(t, b)
	if len(b.Gaps) != 2 || !strings.Contains(b.Gaps[1], "2 in namespaces with invalid names") {
		t.Errorf("%q", b.Gaps)
	}
	for name, text := range files {
		if strings.Contains(string(text), "\x1b") || strings.Contains(string(text), "\n# heading") {
			t.Errorf("%s: %q", name, text)
		}
	}
	if !strings.Contains(string(files["README.md"]), "- `x' # heading ![](http://evil.example)`\n") {
		t.Errorf("%s", files["README.md"])
	}
	for _, id := range []string{"", "..", "a/b", "A b"} {
		if _, err := Make(Given{ID: id}); err == nil {
			t.Errorf("%q is taken for an ID", id)
		}
	}
}

// TestTooLarge requires as many objects as the limit permits, and an error for a bundle above the maximum size.
func TestTooLarge(t *testing.T) {
	g := given(t)
	label := `"k%d":"` + strings.Repeat("v", 3000) + `",`
	item := `{"metadata":{"name":"a","labels":{`
	for i := range 60 {
		item += fmt.Sprintf(label, i)
	}
	item += `"z":""}}}`
	nodes := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	g.Objects = []cluster.Objects{objectsOf(t, nodes, "Node", false, slices.Repeat([]string{item}, 40)...)}
	b, err := Make(g)
	if err != nil || len(b.Gaps) != 1 || b.Gaps[0] != "nodes: 17 of 40, because all of them together exceed 4 MiB" {
		t.Fatalf("%v, %v", err, b.Gaps)
	}
	if err := b.fits(); err != nil {
		t.Error(err)
	}
	b.add(File{Name: "run-2.ndjson", Data: make([]byte, most)})
	if err := b.fits(); !errors.As(err, new(tooLargeError)) || !strings.Contains(err.Error(), "but the limit is 64") {
		t.Error(err)
	}
}

// TestTarget requires a file that only its owner can read, that is written atomically, and that replaces no other file.
func TestTarget(t *testing.T) {
	b, err := Make(given(t))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	name := filepath.Join(folder, "b.tar.gz")
	to, err := Reserve(folder)
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, errors.Join(Free(name), to.Keep(b, name)))
	to.Drop()
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	if err := Free(name); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Error(err)
	}
	again, err := Reserve(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Keep(&Bundle{}, name); err == nil { // the file was created meanwhile
		t.Error("it is written over another file")
	}
	again.Drop()
	if after, err := os.Stat(name); err != nil || after.Size() != info.Size() {
		t.Errorf("%v, %v", after, err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := Reserve(filepath.Join(folder, "none")); err == nil {
		t.Error("a folder that is not there")
	}
}
