package cluster

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// NoProbeOn returns why a probe cannot run on a node, or "" if there is no known reason. Without this check, each
// access method would wait for a probe that the node's kubelet never starts or never reports.
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

// labelOfMigration is the label that shows a node's network during a migration from flannel (kube-controllers,
// flannelmigration).
const labelOfMigration = "projectcalico.org/node-network-during-migration"

// NotCalicos returns why a node does not need calico-node, or "" if it does.
func NotCalicos(n *corev1.Node) string {
	if n.Labels[labelOfMigration] == "flannel" {
		return "the node still uses flannel's network: the migration to Calico has not reached it yet"
	}
	return NoProbeOn(n)
}
