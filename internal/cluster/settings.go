package cluster

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// versionIn matches the version in an image's tag: calico/node:v3.32.1.
var versionIn = regexp.MustCompile(`:v?(\d+\.\d+(\.\d+)?)[^:/]*$`)

// calicoTarget describes how calico-node on this node is configured to detect its address. The version comes from the
// node's own image, because upgrades proceed node by node.
func calicoTarget(s *Snapshot) (probe.Target, bool) {
	spec, _ := CalicoContainerOf(s.Calico.Value)
	if spec == nil {
		return probe.Target{}, false
	}
	version := s.Version()
	budget, _, _ := KillBudget(spec)
	var internal []string
	for _, a := range InternalIPs(s.Node) {
		internal = append(internal, a.String())
	}
	env := s.environment()
	attrs := map[string]string{
		probe.AttrIP: env.given("IP"), probe.AttrIP6: env.given("IP6"),
		probe.AttrMethod:   env.given("IP_AUTODETECTION_METHOD"),
		probe.AttrMethod6:  env.given("IP6_AUTODETECTION_METHOD"),
		probe.AttrInternal: strings.Join(internal, ","), probe.AttrPodCIDRs: strings.Join(s.Node.Spec.PodCIDRs, ","),
		probe.AttrBudget:  strconv.Itoa(int(budget.Seconds())),
		probe.AttrLogs:    s.Calico.Value.Namespace + "_" + s.Calico.Value.Name + "_" + string(s.Calico.Value.UID),
		probe.AttrAccount: s.Calico.Value.Namespace + ":" + cmp.Or(s.Calico.Value.Spec.ServiceAccountName, "default"),
	}
	for attr, mount := range map[string]string{probe.AttrRunFolder: probe.PlaceRun, probe.AttrLibFolder: probe.PlaceLib} {
		if folder := folderOf(s.Calico.Value, spec, mount); folder != "" && folder != mount {
			attrs[attr] = folder
		}
	}
	return probe.Target{Kind: probe.KindCalico, Name: version, Node: s.Node.Name, Attrs: attrs}, true
}

// folderOf returns the host folder that a container mounts at this path, or "" if the mount is not a host folder.
func folderOf(pod *corev1.Pod, spec *corev1.Container, mount string) string {
	for _, m := range spec.VolumeMounts {
		if inRun(m.MountPath) != mount || m.SubPath != "" || m.SubPathExpr != "" {
			continue
		}
		for _, v := range pod.Spec.Volumes {
			if v.Name == m.Name && v.HostPath != nil && path.IsAbs(v.HostPath.Path) {
				return inRun(v.HostPath.Path)
			}
		}
	}
	return ""
}

// inRun returns the clean form of a path, with /run instead of the link /var/run.
func inRun(name string) string {
	name = path.Clean(name)
	if rest, ok := strings.CutPrefix(name, "/var/run/"); ok {
		return "/run/" + rest
	}
	return name
}

// given returns the configured address method, or "(from elsewhere)" if it is unknown.
func (env environment) given(name string) string {
	if value, err := env.get(name); err == nil {
		return value
	}
	return "(from elsewhere)"
}

// FelixTarget returns the configured address of this node's Felix. The pod's environment takes precedence over
// FelixConfiguration, and FelixConfiguration over Felix's defaults.
func FelixTarget(s *Snapshot) probe.Target {
	t := probe.Target{Kind: probe.KindFelix, Name: "felix", Node: s.Node.Name}
	if on, ok := felixEnabled(s); ok {
		t.Attrs = map[string]string{probe.AttrEnabled: strconv.FormatBool(on)}
	}
	if h, ok := s.Felix.Value["healthHost"].(string); ok && h != "" {
		t.Host = h
	}
	if p, ok := s.Felix.Value["healthPort"].(int64); ok && p > 0 {
		t.Port = int(p)
	}
	switch h := s.CalicoEnv("FELIX_HEALTHHOST"); {
	case h != "":
		t.Host = h
	case t.Host != "": // from FelixConfiguration, which 'calico-node -felix-live' does not read
		t.Attrs = with(t.Attrs, probe.AttrProbed, "localhost")
	}
	if p, err := strconv.Atoi(s.CalicoEnv("FELIX_HEALTHPORT")); err == nil && p > 0 {
		t.Port = p
	}
	if policy := s.Policies.ByLabels(); policy != "" {
		t.Attrs = with(t.Attrs, probe.AttrByLabels, policy)
	}
	for _, name := range probe.FelixSettings() {
		value := cmp.Or(s.CalicoEnv("FELIX_"+strings.ToUpper(variable(name))), plain(s.Felix.Value[name]))
		if value == "" {
			continue
		}
		t.Attrs = with(t.Attrs, name, value)
	}
	return t
}

// with adds an attribute.
func with(attrs map[string]string, name, value string) map[string]string {
	if attrs == nil {
		attrs = map[string]string{}
	}
	attrs[name] = value
	return attrs
}

// variable returns the environment variable of one of Felix's settings.
func variable(name string) string {
	if name == "ipipMTU" {
		return "ipInIpMTU"
	}
	return name
}

// plain formats a setting as text, "" if it is not set.
func plain(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// Version returns the version of the node's calico-node image, or "" if unknown.
func (s *Snapshot) Version() string {
	version, _ := s.Info.Value.Spec["calicoVersion"].(string)
	if spec, _ := CalicoContainerOf(s.Calico.Value); spec != nil {
		if m := versionIn.FindStringSubmatch(spec.Image); m != nil {
			version = "v" + m[1]
		}
	}
	return version
}

// olderThan reports whether the version is known and is before 3.minor.patch.
func (s *Snapshot) olderThan(minor, patch int) bool {
	var have [3]int
	n, _ := fmt.Sscanf(s.Version(), "v%d.%d.%d", &have[0], &have[1], &have[2])
	return n >= 2 && slices.Compare(have[:], []int{3, minor, patch}) < 0
}

// FelixBools are the words that Felix accepts for a boolean (felix/config, BoolParam).
var FelixBools = map[string]bool{"true": true, "1": true, "yes": true, "y": true, "t": true,
	"false": false, "0": false, "no": false, "n": false, "f": false}

// felixEnabled reports whether Felix's health endpoint is enabled. The default is off. known is false if the setting is
// uncertain.
func felixEnabled(s *Snapshot) (on, known bool) {
	value, err := s.environment().get("FELIX_HEALTHENABLED")
	if value != "" {
		on, known = FelixBools[strings.ToLower(value)]
		return on, known
	}
	if spec, _ := CalicoContainerOf(s.Calico.Value); spec == nil || err != nil || s.Felix.Err != nil {
		return false, false
	}
	on, _ = s.Felix.Value["healthEnabled"].(bool)
	return on, true
}

// CalicoContainer is the name of Felix's container in Calico's and Canal's pods.
const CalicoContainer = "calico-node"
