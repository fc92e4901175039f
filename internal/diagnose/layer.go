package diagnose

import (
	"fmt"
	"slices"
	"strings"
)

// A Layer is the part of a node that a cause lies in. A fault in one layer shows in all that
// come after it: without a network there is no datastore, and without that no Felix. So a cause
// may explain those of its own layer and of later ones; of an earlier one only a symptom, where it
// is a reason itself (MayExplain). What a rule names in Explains keeps to that too.
type Layer int

// The layers, in the order in which a node comes up.
const (
	LayerMachine   Layer = iota + 1 // power, CPU, memory, disks, clock, swap
	LayerKernel                     // kernel settings and tables, the loopback, the uplink
	LayerRuntime                    // containerd, docker, shims
	LayerKubelet                    // the kubelet and its certificates
	LayerStart                      // the pod of calico-node: image, limits, time to start
	LayerInit                       // its init containers
	LayerDatastore                  // the way to the API server or etcd, the services it leads through, the rights there
	LayerCalico                     // the CNI files, Felix, BIRD, confd, and the address that Calico registered
	LayerPeers                      // BGP sessions, and the other nodes
	LayerRoutes                     // routes and tunnels
	LayerPaths                      // firewalls, policies, and the network between the nodes
	LayerServices                   // DNS
	LayerPlacement                  // what keeps the probe off the node, and says little about it
)

// layerNames are the words for the layers in a cause's file.
var layerNames = []string{
	"machine", "kernel", "runtime", "kubelet", "start", "init", "datastore", "calico", "peers", "routes", "paths",
	"services", "placement",
}

// ParseLayer returns the layer of a name.
func ParseLayer(name string) (Layer, error) {
	i := slices.Index(layerNames, name)
	if i < 0 {
		return 0, fmt.Errorf("%q is no layer: use one of %s", name, strings.Join(layerNames, ", "))
	}
	return Layer(i) + LayerMachine, nil
}

// MayExplain tells whether a cause of this rule may have one of another as its consequence:
// not one of an earlier layer, unless that is a symptom and this is none; what is bad only later
// explains nothing that is bad now, and what is left over explains symptoms.
func (r *Rule) MayExplain(other *Rule) bool {
	if r.Later && !other.Later {
		return false
	}
	if r.Residual {
		return other.Symptom
	}
	return r.Layer <= other.Layer || other.Symptom && !r.Symptom
}
