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

// Snapshot is what the API said of one node at one moment, and of the cluster around it. The checks turn the error of
// a part that could not be read into unknown.
type Snapshot struct {
	Survey
	Together bool    // other nodes are judged by themselves: what is wrong with them is not said of this one
	asRead   *Survey // the same before what does not hold for this node was left out

	Now  time.Time // by the API server's clock, when the lease was read
	Read time.Time // that moment by our own clock
	Node *corev1.Node

	Lease  Read[*coordinationv1.Lease]
	Starts Read[starts] // of the kubelet, lately
	Placed placement

	// the node's calico-node pod, verified; nil when there is none, or the error says why that is not known: an
	// *UnverifiedError where pods claim to be it and none is believed
	Calico  Read[*corev1.Pod]
	ignored []corev1.Pod // pods on the node that claim to be it and are not
	Startup Read[startup]
	configuration
	access

	IPAM    Read[ipam]
	Proxy   Read[proxyAccess]
	Local   Read[local]
	unready []corev1.Pod // workload pods of a silent node, where the API calls none ready
	probed
}

// configuration is what follows from calico-node's environment and from Felix's settings.
type configuration struct {
	configMaps configMaps           // that its environment is from
	Felix      Read[map[string]any] // spec of FelixConfiguration, the node's own over default
	Backend    Read[string]         // Calico's networking backend: bird, vxlan, none; "" = not known
	Etcd       Read[[]probe.Target] // etcd's, where Calico keeps its data there
}

// UnknownNodeError says that the cluster has no node of that name.
type UnknownNodeError struct {
	Name string
	Have []string // the names there are, the most alike first
	// Removed is when the cluster's controller saw its Node object deleted, and what that event says; without a text
	// where it did not within the hour for which the API keeps events.
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
	return fmt.Sprintf("%s. Its Node object was deleted (event: %s). Its pods are deleted with it, and Calico removes its routes and BGP peers. Where the machine is to stay, find out who deleted the object, then restart its kubelet, which registers the node again",
		text, e.Removed.Aged(e.now))
}

// alike orders the nodes' names by how much of the wanted name they share.
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

// A Survey is what the API said of the cluster as a whole, the same for each of its nodes.
type Survey struct {
	Nodes    []corev1.Node // all of them, by name
	CalicoIn []string      // the namespaces in which Calico's own pods are looked for
	memo     *memo         // nil = what follows from it is worked out at each call

	ofNodes
	shared probed     // by the probes on all nodes (ReadShared)
	given  configMaps // that calico-node's environment is from, on whichever node

	Installation
	resources
	serving
}

// serving is what the cluster's Services lead to.
type serving struct {
	AllServices Read[[]corev1.Service]
	Stray       Read[[]strayEndpoints]
	API         Read[[]probe.Target] // the API server's Service and each endpoint
	DNS         Read[clusterDNS]
	DNSServers  Read[DNSServers] // the pods of CoreDNS
	Webhooks    Read[webhooks]
}

// ofNodes is what the API said of every node, where every node was read (readEach).
type ofNodes struct {
	Leases Read[map[string]*coordinationv1.Lease]
	Claims Read[map[string][]corev1.Pod] // pods that claim to be calico-node
	Now    time.Time                     // by the API server's clock, when the leases were read
	read   time.Time                     // that moment by our own clock
}

// Installation is what makes Calico's pods.
type Installation struct {
	Controllers   Read[[]corev1.Pod] // of calico-kube-controllers
	NoControllers Read[string]       // why there is none, where a Deployment wants one
	Sets          Read[[]CalicoSet]  // read where a node has no pod of calico-node, else nil
}
