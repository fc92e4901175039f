package cluster

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// NoProbeOn returns why a probe cannot run on a node, "" = no known reason. The node's kubelet would not start or
// report the probe, and each access method would wait for it.
func NoProbeOn(node *corev1.Node) string {
	info, os := node.Status.NodeInfo, node.Labels[corev1.LabelOSStable]
	switch {
	case node.Labels["type"] == "virtual-kubelet", node.Labels["eks.amazonaws.com/compute-type"] == "fargate",
		info.KubeletVersion != "" && info.KernelVersion == "":
		return fmt.Sprintf("node %s is virtual: its kubelet (%s) has no machine to examine", node.Name, info.KubeletVersion)
	case os == "windows", strings.EqualFold(info.OperatingSystem, "windows"):
		return fmt.Sprintf("node %s runs Windows, and the probe runs on Linux", node.Name)
	}
	return ""
}

// labelOfMigration is the node label for a node's network during a migration from flannel (kube-controllers,
// flannelmigration).
const labelOfMigration = "projectcalico.org/node-network-during-migration"

// NotCalicos returns why a node needs no calico-node, "" = it needs one.
func NotCalicos(n *corev1.Node) string {
	if n.Labels[labelOfMigration] == "flannel" {
		return "the node still uses flannel's network: the migration to Calico has not reached it yet"
	}
	return NoProbeOn(n)
}
