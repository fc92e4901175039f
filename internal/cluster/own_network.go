package cluster

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ownNetwork returns the part of a pod's spec with which the owner can shape the pod's network. It returns "" for
// system pods, and for pods with the node's default network. A shaped pod's failures are not evidence against the node:
// a tenant with NET_ADMIN can remove the pod's routes, and an annotation can limit its bandwidth.
func ownNetwork(p *corev1.Pod) string {
	if p.Namespace == metav1.NamespaceSystem {
		return ""
	}
	security := func(of *corev1.SecurityContext) string {
		switch {
		case of == nil:
		case of.Privileged != nil && *of.Privileged:
			return "privileged"
		case of.Capabilities != nil:
			for _, held := range of.Capabilities.Add {
				if name := strings.TrimPrefix(strings.ToUpper(string(held)), "CAP_"); slices.Contains(
					[]string{"NET_ADMIN", "SYS_ADMIN", "ALL"}, name) {
					return name
				}
			}
		}
		return ""
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if why := security(c.SecurityContext); why != "" {
			return why
		}
	}
	for _, c := range p.Spec.EphemeralContainers {
		if why := security(c.SecurityContext); why != "" {
			return why
		}
	}
	if p.Spec.SecurityContext != nil && len(p.Spec.SecurityContext.Sysctls) > 0 {
		return "sysctls"
	}
	for _, name := range slices.Sorted(maps.Keys(p.Annotations)) {
		domain, rest, _ := strings.Cut(name, "/")
		switch {
		case domain == "kubernetes.io" && strings.HasSuffix(rest, "-bandwidth"), domain == "qos.projectcalico.org",
			name == "k8s.v1.cni.cncf.io/networks", name == "v1.multus-cni.io/default-network":
			return name
		}
	}
	return ""
}
