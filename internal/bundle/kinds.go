package bundle

import (
	"slices"
	"strings"
)

// fields are the names of kept fields. If a field is a list, the names apply to each item. nil = all fields.
type fields map[string]fields

// kept parses paths into fields. Everything below a path is also kept.
func kept(paths string) fields {
	out := fields{}
	for path := range strings.FieldsSeq(paths) {
		at := out
		names := strings.Split(path, ".")
		for i, name := range names {
			if i == len(names)-1 {
				at[name] = nil
				break
			}
			if at[name] == nil {
				at[name] = fields{}
			}
			at = at[name]
		}
	}
	return out
}

// below prefixes paths with a field.
func below(field, paths string) string {
	var out []string
	for path := range strings.FieldsSeq(paths) {
		out = append(out, field+"."+path)
	}
	return " " + strings.Join(out, " ") + " "
}

// metadata are the kept fields of every object.
const metadata = "apiVersion kind metadata.name metadata.namespace metadata.uid metadata.resourceVersion metadata.generation " +
	"metadata.creationTimestamp metadata.deletionTimestamp metadata.deletionGracePeriodSeconds metadata.finalizers " +
	"metadata.labels metadata.annotations metadata.ownerReferences "

// Kept fields of all pods and their containers.
const (
	podSpec = "nodeName hostNetwork hostPID dnsPolicy restartPolicy priorityClassName priority serviceAccountName schedulerName " +
		"terminationGracePeriodSeconds nodeSelector affinity tolerations readinessGates schedulingGates"
	podStatus = "phase conditions message reason hostIP hostIPs podIP podIPs startTime qosClass nominatedNodeName"
	container = "name ports resources"
	// fields of a container's status, without those that describe its content
	containerStatus = "name state lastState ready restartCount started"
)

// Additional kept fields of Calico's and Kubernetes' own pods.
const (
	ownContainer = "image imagePullPolicy command args env envFrom securityContext"
	ownProbe     = "exec httpGet.path httpGet.port httpGet.scheme httpGet.host tcpSocket grpc initialDelaySeconds periodSeconds " +
		"timeoutSeconds failureThreshold successThreshold terminationGracePeriodSeconds"
	ownStatus = "image imageID"
)

// podPaths returns the kept fields of a pod.
func podPaths(own bool) string {
	spec, status := container, containerStatus
	if own {
		spec, status = ownSpec(), status+" "+ownStatus
	}
	return specPaths("spec", spec) + below("status", podStatus) + below("status.containerStatuses", status) +
		below("status.initContainerStatuses", status)
}

// ownSpec returns the kept fields of one of Calico's or Kubernetes' own containers.
func ownSpec() string {
	return container + " " + ownContainer + below("livenessProbe", ownProbe) + below("readinessProbe", ownProbe) +
		below("startupProbe", ownProbe)
}

// specPaths returns the kept fields of a pod's spec.
func specPaths(at, container string) string {
	return below(at, podSpec) + below(at+".containers", container) + below(at+".initContainers", container)
}

// fromElsewhere returns the fields that name the source of an environment variable's value.
func fromElsewhere() fields {
	return kept("fieldRef resourceFieldRef configMapKeyRef secretKeyRef")
}

// keptOf returns the kept fields of a resource's objects. own is true if the namespace belongs to Calico or Kubernetes.
// Objects of unlisted resources keep only their metadata.
func keptOf(resource string, own bool) fields {
	switch resource {
	case "nodes":
		return kept(metadata + below("spec", "podCIDR podCIDRs taints unschedulable") +
			below("status", "addresses allocatable capacity conditions daemonEndpoints phase") +
			below("status.nodeInfo", "architecture bootID containerRuntimeVersion kernelVersion kubeProxyVersion "+
				"kubeletVersion operatingSystem osImage swap"))
	case "leases":
		return kept(metadata + "spec")
	case "pods":
		return kept(metadata + podPaths(own))
	case "daemonsets":
		return kept(metadata + below("spec", "selector updateStrategy minReadySeconds revisionHistoryLimit") +
			below("spec.template.metadata", "labels annotations") +
			specPaths("spec.template.spec", ownSpec()) + "status")
	case "configmaps":
		return kept(metadata + "data immutable")
	case "events":
		return kept(metadata + "involvedObject reason message source firstTimestamp lastTimestamp count type eventTime " +
			"series action related reportingComponent reportingInstance")
	case "networkpolicies", "globalnetworkpolicies":
		return kept(metadata + below("spec", "order tier selector types namespaceSelector serviceAccountSelector "+
			"applyOnForward preDNAT doNotTrack performanceHints stagedAction"))
	case "ippools", "ipreservations", "bgpconfigurations", "bgppeers", "bgpfilters", "felixconfigurations",
		"clusterinformations", "ipamconfigs", "ipamconfigurations", "ipamblocks", "blockaffinities", "hostendpoints", "tiers":
		return kept(metadata + "spec status")
	}
	return kept(metadata)
}

// annotationDomains returns the domains of annotations that Kubernetes and Calico set.
func annotationDomains() []string {
	return []string{"projectcalico.org", "cni.projectcalico.org", "kubernetes.io", "node.alpha.kubernetes.io",
		"node.kubernetes.io", "volumes.kubernetes.io", "calico-probe.io"}
}

// keptAnnotation reports whether the value of an annotation is kept. It is false for projectcalico.org/metadata, which
// repeats another object's metadata with any annotations that the object's author set.
func keptAnnotation(name string) bool {
	domain, _, found := strings.Cut(name, "/")
	return found && slices.Contains(annotationDomains(), domain) && name != "projectcalico.org/metadata"
}

// keptSetting reports whether the value of a ConfigMap key is kept. Only values of keys from Calico's manifests are
// kept.
func keptSetting(name string) bool {
	return slices.Contains([]string{
		"calico_backend", "veth_mtu", "typha_service_name", "cni_network_config", "canal_iface", "masquerade",
		"net-conf.json", "etcd_endpoints", "etcd_ca", "etcd_cert", "etcd_key",
		"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT",
	}, name)
}

// keptVariable reports whether the value of an environment variable is kept. Kept variables configure Calico or
// kube-proxy, or contain the location of the API server, the datastore or the node.
func keptVariable(name string) bool {
	if strings.HasPrefix(name, "FELIX_") || strings.HasPrefix(name, "CALICO_") {
		return true
	}
	return slices.Contains([]string{
		"AS", "AUTODETECT_POLL_INTERVAL", "BGP_LOGSEVERITYSCREEN", "CLUSTER_TYPE", "CNI_CONF_NAME", "CNI_MTU",
		"CNI_NETWORK_CONFIG", "CNI_NET_DIR", "DATASTORE_TYPE", "DISABLE_NODE_IP_CHECK", "ETCD_CA_CERT_FILE",
		"ETCD_CERT_FILE", "ETCD_ENDPOINTS",
		"ETCD_KEY_FILE", "IP", "IP6", "IP6_AUTODETECTION_METHOD", "IP_AUTODETECTION_METHOD", "KUBECONFIG",
		"KUBERNETES_NODE_NAME",
		"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "MULTI_INTERFACE_MODE", "NODENAME", "NO_DEFAULT_POOLS",
		"NO_PROXY",
		"NODE_NAME", "SKIP_CNI_BINARIES", "SLEEP", "UPDATE_CNI_BINARIES", "USE_POD_CIDR", "WAIT_FOR_DATASTORE", "no_proxy",
	}, name)
}
