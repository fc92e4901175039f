package bundle

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
)

// The folders of troubleshoot.sh's support bundles.
const (
	resourcesFolder = "cluster-resources"
	infoFolder      = "cluster-info"
)

// addObjects adds the files of the API objects.
func (b *Bundle) addObjects(g Given) error {
	if g.Version != nil {
		text, err := indented(map[string]any{"info": g.Version, "string": g.Version.GitVersion})
		if err != nil {
			return err
		}
		b.add(File{Name: path.Join(infoFolder, "cluster_version.json"), Data: text})
	}
	for _, of := range g.Objects {
		for _, gap := range of.Gaps {
			b.Gaps = append(b.Gaps, of.Resource+": "+gap)
		}
		if err := b.addKind(of, g.Own); err != nil {
			return err
		}
	}
	return b.addDiscovery(g.Objects)
}

// addKind adds the objects of one kind, in one file or one file per namespace.
func (b *Bundle) addKind(of cluster.Objects, own []string) error {
	in := map[string][]map[string]any{} // by namespace
	objects := map[string][]Object{}
	odd, size := 0, 0
	for i, item := range of.Items {
		namespace := item.GetNamespace()
		if of.Namespaced && len(validation.IsDNS1123Label(namespace)) > 0 {
			odd++ // the namespace becomes a file name
			continue
		}
		kept, out, long, err := bounded(item.Object, keptOf(of.Resource, slices.Contains(own, namespace)))
		if err != nil {
			return err
		}
		if size += long; size > largestKind {
			b.Gaps = append(b.Gaps, fmt.Sprintf("%s: %d of %d, because all of them together exceed %d MiB", of.Resource, len(of.Items)-i,
				len(of.Items), largestKind>>20))
			break
		}
		name := strings.TrimPrefix(namespace+"/"+item.GetName(), "/")
		in[namespace] = append(in[namespace], kept)
		objects[namespace] = append(objects[namespace], Object{strings.ToLower(of.Kind) + " " + probe.Line(name), out})
	}
	if odd > 0 {
		b.Gaps = append(b.Gaps, fmt.Sprintf("%s: %d in namespaces with invalid names", of.Resource, odd))
	}
	for _, namespace := range slices.Sorted(maps.Keys(in)) {
		text, err := listed(of, in[namespace])
		if err != nil {
			return err
		}
		b.add(File{Name: fileOf(of, namespace), Data: text, Objects: objects[namespace]})
	}
	return nil
}

// bounded redacts an object. If the object is too large, it keeps only the name. It also returns the size in bytes.
func bounded(object map[string]any, keeps fields) (kept map[string]any, out []Removal, size int, err error) {
	kept, out = redacted(object, keeps)
	text, err := json.Marshal(kept)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("writing an object: %w", err)
	}
	size = len(text)
	if len(text) > largestObject {
		kept, _ = redacted(object, fields{"apiVersion": nil, "kind": nil, "metadata": {"name": nil, "namespace": nil}})
		out = []Removal{{ruleLarge, fmt.Sprintf("all of its %d KiB", size>>10)}}
		size = maxText
	}
	return kept, out, size, nil
}

// isCustom reports whether a resource is a custom resource.
func isCustom(of cluster.Objects) bool { return strings.HasSuffix(of.Group, "projectcalico.org") }

// fileOf returns the path of objects. It names built-in resources by resource, and other resources by resource and
// group.
func fileOf(of cluster.Objects, namespace string) string {
	name := of.Resource
	if isCustom(of) {
		name = path.Join("custom-resources", of.Resource+"."+of.Group)
	}
	return path.Join(resourcesFolder, name, namespace) + ".json"
}

// listed encodes objects. It encodes built-in resources as a List, as the API does, and custom resources as plain
// objects.
func listed(of cluster.Objects, items []map[string]any) ([]byte, error) {
	if isCustom(of) {
		return indented(items)
	}
	return indented(map[string]any{
		"kind": of.Kind + "List", "apiVersion": of.GroupVersion().String(), "metadata": map[string]any{}, "items": items,
	})
}

// addDiscovery adds the discovery documents of the collected kinds, which tools need to serve the objects.
func (b *Bundle) addDiscovery(all []cluster.Objects) error {
	resources := map[schema.GroupVersion]*metav1.APIResourceList{}
	for _, of := range all {
		gv := of.GroupVersion()
		if gv.Version == "" {
			continue
		}
		if resources[gv] == nil {
			resources[gv] = &metav1.APIResourceList{GroupVersion: gv.String()}
			resources[gv].Kind = "APIResourceList"
		}
		kind := metav1.APIResource{Name: of.Resource, SingularName: strings.ToLower(of.Kind), Kind: of.Kind,
			Namespaced: of.Namespaced, Verbs: metav1.Verbs{"get", "list"}}
		resources[gv].APIResources = append(resources[gv].APIResources, kind)
	}
	if len(resources) == 0 {
		return nil
	}
	var groups []metav1.APIGroup
	var lists []*metav1.APIResourceList
	byName := func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) }
	for _, gv := range slices.SortedFunc(maps.Keys(resources), byName) {
		version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		groups = append(groups, metav1.APIGroup{Name: gv.Group, PreferredVersion: version,
			Versions: []metav1.GroupVersionForDiscovery{version}})
		lists = append(lists, resources[gv])
	}
	for name, what := range map[string]any{"groups": groups, "resources": lists} {
		text, err := indented(what)
		if err != nil {
			return err
		}
		b.add(File{Name: path.Join(resourcesFolder, name+".json"), Data: text})
	}
	slices.SortStableFunc(b.Files, func(x, y File) int { return strings.Compare(path.Dir(x.Name), path.Dir(y.Name)) })
	return nil
}

func indented(v any) ([]byte, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing objects: %w", err)
	}
	return append(text, '\n'), nil
}
