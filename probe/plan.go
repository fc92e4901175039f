package probe

import (
	"net/netip"
	"time"
)

// Version is the version of the wire format: it rises when the meaning of an
// existing field changes. New fields and event types do not raise it.
const Version = 1

// AttrNode is on targets on a node that is not Ready: "NotReady", "Unknown".
const AttrNode = "node"

// Attributes of a KindCalico target: calico-node's environment as it stands
// ("autodetect", "none", an address; "first-found", "can-reach=...") and the
// Kubernetes Node's InternalIPs, separated by commas.
const (
	AttrIP       = "ip"
	AttrIP6      = "ip6"
	AttrMethod   = "method"
	AttrMethod6  = "method6"
	AttrInternal = "internal"
	AttrBudget   = "budget_s" // seconds from a start to the first good answer that its probe allows
)

// AttrOwn is "true" on a KindBlock target that belongs to the node itself.
const AttrOwn = "own"

// AttrEnabled is "false" on a KindFelix target whose health endpoint is turned off.
const AttrEnabled = "enabled"

// The kinds of target a plan names.
const (
	KindNode  = "node"  // another node's InternalIP
	KindPeer  = "peer"  // another node's Calico address, where it is not one of its InternalIPs
	KindPod   = "pod"   // a workload pod on another node
	KindFelix = "felix" // where this node's Felix is configured to answer: Host and Port, where they are set

	KindSelf      = "self"      // an address Calico registered for this node itself
	KindBackend   = "backend"   // Name is Calico's networking backend on this node: bird, vxlan or none; Port is where BGP listens
	KindDatastore = "datastore" // where the API server answers: its service and each endpoint, Addr and Port
	KindBlock     = "block"     // a block of pod addresses: Name is its prefix, Addr the address of the node it belongs to
	KindDNS       = "dns"       // where the cluster's DNS answers: its service and each endpoint, Addr and Port
	KindCalico    = "calico"    // Name is the version of Calico on this node, Attrs how it is to find its address
	KindRuntime   = "runtime"   // Name is the container runtime the kubelet reports: containerd://2.4.2
)

// Target is one thing outside the check that it asks about.
type Target struct {
	Kind string     `json:"kind"`
	Name string     `json:"name"`           // node name, namespace/pod
	Node string     `json:"node,omitempty"` // the node it lives on
	Addr netip.Addr `json:"addr,omitzero"`
	Host string     `json:"host,omitempty"` // a name to be resolved on the node
	Port int        `json:"port,omitempty"`
	// Attrs are settings that belong to the target; each kind names its own.
	Attrs map[string]string `json:"attrs,omitempty"`
}

// String names the target in results: "node-b 10.0.0.2".
func (t Target) String() string {
	if t.Addr.IsValid() {
		return t.Name + " " + t.Addr.String()
	}
	return t.Name
}

// Plan says what one probe is to ask. It travels as one JSON line.
type Plan struct {
	Run     string   `json:"run"`            // run ID, to tell runs apart in logs and labels
	Node    string   `json:"node,omitempty"` // the node as Kubernetes calls it
	Way     string   `json:"way,omitempty"`  // how the probe got there
	Checks  []string `json:"checks"`         // IDs, in order
	Targets []Target `json:"targets,omitempty"`
	// Gaps are the kinds of target that could not be listed, and why: a check
	// without targets of such a kind answers unknown.
	Gaps map[string]string `json:"gaps,omitempty"`
	// Now is the API server's clock when the plan was made, zero when not known.
	Now time.Time `json:"now,omitzero"`
	// Limit, when set, replaces every check's own deadline.
	Limit time.Duration `json:"limit_ns,omitempty"`
}
