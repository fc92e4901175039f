package cluster

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/calico-probe/calico-probe/probe"
)

// TestEnvironment works out what kubespray, kubekey and Calico's manifests set by.
func TestEnvironment(t *testing.T) {
	c := serverOf(t, map[string]string{
		"/api/v1/namespaces/kube-system/configmaps/calico-config": `{"kind":"ConfigMap","data":{"veth_mtu":"1430","calico_backend":"vxlan"}}`,
		"/api/v1/namespaces/kube-system/configmaps/extra":         `{"kind":"ConfigMap","data":{"HEALTHENABLED":"yes"}}`,
	}, nil)
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	key := func(key string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "calico-config"}, Key: key}}
	}
	from := func(prefix, name string) corev1.EnvFromSource {
		return corev1.EnvFromSource{Prefix: prefix, ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
	}
	s := snapshot(node("a", "10.0.0.1", "10.0.0.1/24"))
	s.Calico.Value = calico(3)
	s.Calico.Value.Namespace, s.Calico.Value.Status.HostIP = "kube-system", "10.0.0.1"
	s.Calico.Value.Labels = map[string]string{"controller-revision-hash": "5f"}
	spec := &s.Calico.Value.Spec.Containers[0]
	spec.EnvFrom = []corev1.EnvFromSource{from("", endpointMap), from("FELIX_", "extra")}
	spec.Env = []corev1.EnvVar{
		{Name: "NODEIP", ValueFrom: field("status.hostIP")},
		{Name: "IP_AUTODETECTION_METHOD", Value: "can-reach=$(NODEIP)"},
		{Name: "LATER", Value: "$(UNKNOWN) $$(NODEIP)"},
		{Name: "FELIX_HEALTHHOST", ValueFrom: field("status.hostIP")},
		{Name: "FELIX_VXLANMTU", ValueFrom: key("veth_mtu")},
		{Name: "CALICO_NETWORKING_BACKEND", ValueFrom: key("calico_backend")},
		{Name: "HASH", ValueFrom: field("metadata.labels['controller-revision-hash']")},
		{Name: "HIDDEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}}},
		{Name: "ON_HIDDEN", Value: "x-$(HIDDEN)"},
	}
	s.configMaps = c.readConfigMaps(t.Context(), s.Calico.Value)
	env := s.environment()
	for name, want := range map[string]string{"IP_AUTODETECTION_METHOD": "can-reach=10.0.0.1",
		"LATER": "$(UNKNOWN) $(NODEIP)", "FELIX_HEALTHENABLED": "yes", "FELIX_VXLANMTU": "1430", "HASH": "5f", "NONE": ""} {
		if got, err := env.get(name); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"HIDDEN", "ON_HIDDEN"} {
		if got, err := env.get(name); got != "" || err == nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	felix := FelixTarget(s)
	if felix.Host != "10.0.0.1" || felix.Attrs[probe.AttrEnabled] != "true" || felix.Attrs["vxlanMTU"] != "1430" {
		t.Errorf("%+v", felix)
	}
	if target, _ := calicoTarget(s); target.Attrs[probe.AttrMethod] != "can-reach=10.0.0.1" {
		t.Errorf("%+v", target.Attrs)
	}
	if target, _ := calicoTarget(s); target.Attrs[probe.AttrRunFolder]+target.Attrs[probe.AttrLibFolder] != "" {
		t.Errorf("usual folders: %+v", target.Attrs)
	}
	host := func(name, path string) corev1.Volume {
		source := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}
		return corev1.Volume{Name: name, VolumeSource: source}
	}
	s.Calico.Value.Spec.Volumes = []corev1.Volume{host("run", "/var/run/calico/"), host("lib", "/opt/calico/lib"),
		host("rel", "x")}
	spec.VolumeMounts = []corev1.VolumeMount{{Name: "run", MountPath: "/var/run/calico"},
		{Name: "lib", MountPath: "/var/lib/calico/"}}
	target, _ := calicoTarget(s)
	if target.Attrs[probe.AttrRunFolder]+target.Attrs[probe.AttrLibFolder] != "/opt/calico/lib" {
		t.Errorf("moved folder: %+v", target.Attrs)
	}
	spec.VolumeMounts[1].Name = "rel"
	if target, _ := calicoTarget(s); target.Attrs[probe.AttrLibFolder] != "" {
		t.Errorf("no absolute path: %+v", target.Attrs)
	}
	if backend, err := readBackend(s.Calico.Value, env); backend != "vxlan" || err != nil {
		t.Errorf("%q, %v", backend, err)
	}
	spec.EnvFrom = append(spec.EnvFrom, corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{}})
	if _, err := s.environment().get("NONE"); err == nil {
		t.Error("what a Secret may set is called not set")
	}
}

// TestEnvironmentUnknown holds that a variable is unknown, not unset, where something that may set it was not read.
func TestEnvironmentUnknown(t *testing.T) {
	objects := map[string]string{"/api/v1/namespaces/kube-system/configmaps/empty": `{"kind":"ConfigMap"}`}
	var many []string
	for i := range maxConfigMaps + 1 {
		many = append(many, fmt.Sprint("config-", i))
		objects["/api/v1/namespaces/kube-system/configmaps/"+many[i]] = fmt.Sprintf(
			`{"kind":"ConfigMap","data":{"KEY_%d":"v"}}`, i)
	}
	const secret = "" // in a list of sources
	for name, c := range map[string]struct {
		from    []string
		unknown bool
	}{
		"an empty ConfigMap":                 {[]string{"empty"}, false},
		"an absent ConfigMap":                {[]string{"absent"}, false},
		"as many ConfigMaps as are read":     {many[1:], false},
		"one ConfigMap more":                 {many, true},
		"a Secret":                           {[]string{secret}, true},
		"a Secret before an empty ConfigMap": {[]string{secret, "empty"}, true},
	} {
		pod := calico(3)
		pod.Namespace = "kube-system"
		for _, name := range c.from {
			source := corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{}}
			if name != secret {
				source = corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
			}
			pod.Spec.Containers[0].EnvFrom = append(pod.Spec.Containers[0].EnvFrom, source)
		}
		maps := serverOf(t, objects, nil).readConfigMaps(t.Context(), pod)
		if got, err := environmentOf(pod, maps).get("NONE"); got != "" || (err != nil) != c.unknown {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	last := many[maxConfigMaps]
	e := corev1.EnvVar{Name: "LAST", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: last}, Key: "KEY_5"}}}
	if got, err := (environment{}).valueOf(calico(3), e, configMaps{}); got != "" || err == nil ||
		!strings.Contains(err.Error(), "ConfigMap "+last+" was not read") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestFelixSettings(t *testing.T) {
	config := func(name, at string, spec map[string]any) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": name, "creationTimestamp": at}, "spec": spec}}
	}
	n := node("a", "10.0.0.1", "")
	n.Labels = map[string]string{"rack": "1"}
	got := FelixSettings([]unstructured.Unstructured{
		config("default", "2026-01-01T00:00:00Z", map[string]any{"a": "global", "b": "global", "c": "global"}),
		config("young", "2026-03-01T00:00:00Z", map[string]any{"nodeSelector": "rack == '1'", "b": "young"}),
		config("old", "2026-02-01T00:00:00Z", map[string]any{"nodeSelector": "has(rack)", "b": "old", "c": "old"}),
		config("others", "2026-01-01T00:00:00Z", map[string]any{"nodeSelector": "rack == '2'", "b": "others"}),
		config("node.a", "2026-04-01T00:00:00Z", map[string]any{"c": "own"}),
	}, &n)
	if got["a"] != "global" || got["b"] != "old" || got["c"] != "own" {
		t.Errorf("%v", got)
	}
}
