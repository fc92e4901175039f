package fleet

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// attribute is something that a node may share with others.
type attribute struct {
	name, value string
	rank        int // among those that set nodes apart by as much, the least is named
}

func (a attribute) compare(b attribute) int {
	return cmp.Or(a.rank-b.rank, strings.Compare(a.name, b.name), strings.Compare(a.value, b.value))
}

// labelled are the labels of Kubernetes that have a name of their own here.
var labelled = map[string]string{
	corev1.LabelTopologyZone: "zone", corev1.LabelTopologyRegion: "region",
	corev1.LabelInstanceTypeStable: "instance type", corev1.LabelArchStable: "architecture",
}

// same are labels that say nothing more: an older name of one above, or the node's own name.
var same = []string{
	corev1.LabelHostname, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	corev1.LabelInstanceType, corev1.LabelOSStable, "beta.kubernetes.io/arch", "beta.kubernetes.io/os",
}

// longestValue bounds what is shown of a label's value.
const longestValue = 100

// attributesOf are what may set a node apart: where it stands, what runs on it, and its labels.
func attributesOf(n *corev1.Node) []attribute {
	info := n.Status.NodeInfo
	named := []attribute{
		{name: "zone", value: n.Labels[corev1.LabelTopologyZone]}, {name: "kernel", value: info.KernelVersion},
		{name: "kubelet", value: info.KubeletVersion}, {name: "OS image", value: info.OSImage},
		{name: "container runtime", value: info.ContainerRuntimeVersion},
		{name: "instance type", value: n.Labels[corev1.LabelInstanceTypeStable]},
		{name: "architecture", value: info.Architecture}, {name: "region", value: n.Labels[corev1.LabelTopologyRegion]},
	}
	for i := range named {
		named[i].rank = i
	}
	for key, value := range n.Labels {
		if labelled[key] == "" && !slices.Contains(same, key) {
			named = append(named, attribute{"label " + key, cmp.Or(value, "(set)"), len(labelled) + len(same)})
		}
	}
	out := slices.DeleteFunc(named, func(a attribute) bool { return a.value == "" })
	for i := range out {
		value := probe.OneLine(out[i].value)
		out[i].name, out[i].value = probe.OneLine(out[i].name), value[:min(len(value), longestValue)]
	}
	return out
}
