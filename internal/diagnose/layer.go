package diagnose

import (
	"fmt"
	"slices"
	"strings"
)

// A Layer is the part of a node in which a cause lies. A fault in one layer affects all later layers: without a network
// no datastore is reachable, and without a datastore Felix cannot work. So a cause may explain causes of the same and
// later layers. In an earlier layer, it may explain only a symptom, and only if it is not itself a symptom
// (MayExplain). The same limit applies to Rule.Explains.
type Layer int

// The layers, in the order in which a node starts them.
const (
	LayerMachine   Layer = iota + 1 // power, CPU, memory, disks, clock, swap
	LayerKernel                     // kernel settings and tables, the loopback, the uplink
	LayerRuntime                    // containerd, docker, shims
	LayerKubelet                    // the kubelet and its certificates
	LayerStart                      // calico-node's pod: image, limits, time to start
	LayerInit                       // the init containers of calico-node's pod
	LayerDatastore                  // the path to the API server or etcd, its services, and permissions
	LayerCalico                     // the CNI files, Felix, BIRD, confd, and the address that Calico registered
	LayerPeers                      // BGP sessions, and the other nodes
	LayerRoutes                     // routes and tunnels
	LayerPaths                      // firewalls, policies, and the network between the nodes
	LayerServices                   // DNS
	LayerPlacement                  // reasons why no probe runs on the node: little evidence about the node itself
)

// layerNames are the names of the layers in a cause's file.
var layerNames = []string{
	"machine", "kernel", "runtime", "kubelet", "start", "init", "datastore", "calico", "peers", "routes", "paths",
	"services", "placement",
}

// ParseLayer returns the layer with a name.
func ParseLayer(name string) (Layer, error) {
	i := slices.Index(layerNames, name)
	if i < 0 {
		return 0, fmt.Errorf("%q is not a layer: use one of %s", name, strings.Join(layerNames, ", "))
	}
	return Layer(i) + LayerMachine, nil
}

// MayExplain reports whether a cause of this rule is allowed to explain a cause of the other rule. A cause in an
// earlier layer can be explained only if it is a symptom and this rule's causes are not. A future fault explains only
// future faults. A residual rule explains only symptoms.
func (r *Rule) MayExplain(other *Rule) bool {
	if r.Later && !other.Later {
		return false
	}
	if r.Residual {
		return other.Symptom
	}
	return r.Layer <= other.Layer || other.Symptom && !r.Symptom
}
