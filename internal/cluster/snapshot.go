package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/suggest"
	"github.com/calico-probe/calico-probe/probe"
)

// Snapshot is the API's data about one node and its cluster at one moment. Checks report unknown for a part that could
// not be read.
type Snapshot struct {
	Survey
	Together bool    // the run judges all nodes: other nodes' faults are not reported for this node
	asRead   *Survey // the Survey before parts that do not apply to this node were removed

	Now  time.Time // by the API server's clock, when the lease was read
	Read time.Time // the same moment by this machine's clock
	Node *corev1.Node

	Lease  Read[*coordinationv1.Lease]
	Starts Read[starts] // recent starts of the kubelet
	Placed placement

	// the node's verified calico-node pod; nil = none. The error reports why it is unknown. It is an *UnverifiedError if
	// pods claim to be calico-node but none of them is trusted.
	Calico  Read[*corev1.Pod]
	ignored []corev1.Pod // pods on the node that falsely claim to be calico-node
	Startup Read[startup]
	configuration
	access

	IPAM    Read[ipam]
	Proxy   Read[proxyAccess]
	Local   Read[local]
	unready []corev1.Pod // workload pods of a silent node without ready pods
	probed
}

// configuration is derived from calico-node's environment and Felix's settings.
type configuration struct {
	configMaps configMaps           // sources of calico-node's environment
	Felix      Read[map[string]any] // spec of FelixConfiguration; the node's own takes precedence over default
	Backend    Read[string]         // Calico's networking backend: bird, vxlan, none; "" = unknown
	Etcd       Read[[]probe.Target] // etcd's endpoints, if Calico stores its data in etcd
}

// UnknownNodeError reports that the cluster has no node with that name.
type UnknownNodeError struct {
	Name string
	Have []string // the existing names, the most similar first
	// Removed is the event in which a controller reported that the Node object was deleted. The API keeps events for an
	// hour. Removed's text is empty if there was no such event in this time.
	Removed probe.Statement
	now     time.Time
}

func (e *UnknownNodeError) Error() string {
	const few = 5
	have := e.Have
	more := ""
	if len(have) > few {
		have, more = have[:few], ", …"
	}
	have = slices.Sorted(slices.Values(have))
	text := fmt.Sprintf("no node %q in this cluster%s; it has %s%s", e.Name, suggest.DidYouMean(e.Name, e.Have),
		strings.Join(have, ", "), more)
	if e.Removed.Text == "" {
		return text
	}
	return fmt.Sprintf("%s. Its Node object was deleted (event: %s). Its pods are deleted with it, and Calico removes its routes and BGP peers. To keep the machine, find out who deleted the object, then restart its kubelet, which registers the node again",
		text, e.Removed.Aged(e.now))
}

// alike sorts the nodes' names by their similarity to the wanted name.
func alike(nodes []corev1.Node, want string) []string {
	score := func(have string) int {
		if strings.Contains(have, want) || strings.Contains(want, have) {
			return 1000
		}
		n := 0
		for n < len(have) && n < len(want) && have[n] == want[n] {
			n++
		}
		return n
	}
	names := make([]string, 0, len(nodes))
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	slices.SortStableFunc(names, func(a, b string) int { return score(b) - score(a) })
	return names
}

// A Survey is the API's data about the whole cluster, the same for each of its nodes.
type Survey struct {
	Nodes    []corev1.Node // all nodes, by name
	CalicoIn []string      // trust Calico's pods only in these namespaces
	memo     *memo         // nil = compute derived data at each call

	ofNodes
	shared probed     // what the probes on all nodes check (ReadShared)
	given  configMaps // sources of calico-node's environment on all nodes

	Installation
	resources
	serving
}

// serving holds the cluster's Services and their destinations.
type serving struct {
	AllServices Read[[]corev1.Service]
	Stray       Read[[]strayEndpoints]
	API         Read[[]probe.Target] // the API server's Service and each endpoint
	DNS         Read[clusterDNS]
	DNSServers  Read[DNSServers] // the CoreDNS pods
	Webhooks    Read[webhooks]
}

// ofNodes is the API's data about each node, if every node was read (readEach).
type ofNodes struct {
	Leases Read[map[string]*coordinationv1.Lease]
	Claims Read[map[string][]corev1.Pod] // pods that claim to be calico-node
	Now    time.Time                     // by the API server's clock, when the leases were read
	read   time.Time                     // the same moment by this machine's clock
}

// Installation describes the controllers that create Calico's pods.
type Installation struct {
	Controllers   Read[[]corev1.Pod] // of calico-kube-controllers
	Refused       Read[[]Unmade]     // workloads whose new pods the API server refuses
	NoControllers Read[string]       // why a Deployment that needs a pod has none
	Sets          Read[[]CalicoSet]  // read if a node has no calico-node pod, otherwise nil
}
