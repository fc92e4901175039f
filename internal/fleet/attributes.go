package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// named lists the attributes that have a display name. If several attributes distinguish nodes equally well, the first
// one in this list is used.
var named = []string{
	"zone", "kernel", "kubelet", "OS image", "container runtime", "instance type", "architecture", "region",
}

// firstAttribute sorts attributes, each NAME=VALUE, by display priority.
func firstAttribute(a, b string) int {
	rank := func(attribute string) int {
		name, _, _ := strings.Cut(attribute, "=")
		if i := slices.Index(named, name); i >= 0 {
			return i
		}
		return len(named)
	}
	return cmp.Or(rank(a)-rank(b), strings.Compare(a, b))
}

// same lists redundant labels: labels that have a name in the list above, older names of these labels, and the label
// with the node's name.
var same = []string{
	corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable, corev1.LabelArchStable,
	corev1.LabelHostname, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	corev1.LabelInstanceType, corev1.LabelOSStable, "beta.kubernetes.io/arch", "beta.kubernetes.io/os",
}

// Limits for the labels that are used.
const (
	maxLabels = 24
	maxPair   = 160 // bytes of KEY=VALUE
)

// attributesOf returns attributes that may distinguish a node: its location, its software and its labels. Each is
// NAME=VALUE.
func attributesOf(n *corev1.Node) []string {
	info := n.Status.NodeInfo
	var out []string
	for i, value := range []string{
		n.Labels[corev1.LabelTopologyZone], info.KernelVersion, info.KubeletVersion, info.OSImage,
		info.ContainerRuntimeVersion, n.Labels[corev1.LabelInstanceTypeStable], info.Architecture,
		n.Labels[corev1.LabelTopologyRegion],
	} {
		if value != "" {
			out = append(out, probe.OneLine(named[i]+"="+value))
		}
	}
	taken := 0
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		pair := "label " + key + "=" + n.Labels[key]
		if slices.Contains(same, key) || len(pair) > maxPair || taken == maxLabels {
			continue
		}
		taken++
		out = append(out, probe.OneLine(pair))
	}
	return out
}
