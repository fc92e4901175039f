package probe

import (
	"net/netip"
	"time"
)

// Version is the version of the wire format: it rises when the meaning of an
// existing field changes. New fields and event types do not raise it.
const Version = 1

// AttrNode is on targets on a node that is not Ready: NodeNotReady or NodeSilent.
const AttrNode = "node"

// What the API says of such a node.
const (
	NodeNotReady = "NotReady"                         // by its kubelet's own word
	NodeSilent   = "NotReady (its kubelet is silent)" // its lease has run out
)

// Attributes of a KindCalico target: calico-node's environment as it stands
// ("autodetect", "none", an address; "first-found", "can-reach=...") and the
// Kubernetes Node's InternalIPs, separated by commas.
const (
	AttrIP       = "ip"
	AttrIP6      = "ip6"
	AttrMethod   = "method"
	AttrMethod6  = "method6"
	AttrInternal = "internal"
	AttrPodCIDRs = "pod_cidrs" // the Kubernetes Node's, separated by commas
	AttrLogs     = "logs"      // folder of the logs of calico-node's pod, or a KindLogs target's: NAMESPACE_POD_UID
	AttrAccount  = "account"   // of calico-node: NAMESPACE:NAME
	// the node's folders that calico-node has as /var/run/calico and /var/lib/calico, where they have other names
	AttrRunFolder = "run_folder"
	AttrLibFolder = "lib_folder"
	AttrBudget    = "budget_s" // seconds from a start to the first good answer that its probe allows
)

// AttrOwn is "true" on a KindBlock or KindTunnel target that belongs to the node
// itself.
const AttrOwn = "own"

// AttrPolicy is on targets whose packets a network policy may forbid: its name.
// AttrUnread is there instead where the policies could not be read: why.
const (
	AttrPolicy = "policy"
	AttrUnread = "unread"
)

// AttrDenies is beside AttrPolicy where that policy surely denies every packet in a direction, from
// any sender and of any protocol: DeniesIngress, DeniesEgress, or both with a comma.
const (
	AttrDenies    = "denies"
	DeniesIngress = "ingress"
	DeniesEgress  = "egress"
)

// AttrOwnNetwork is on a pod whose owner may have shaped its network: what lets them, such as NET_ADMIN.
const AttrOwnNetwork = "own_network"

// AttrEmpty is on the service of a KindDNS target that has no ready endpoint: a sentence that says so, and
// what the API knows of the pods that should be there.
const AttrEmpty = "empty"

// AttrEmptyFor is beside AttrEmpty: in one word why that is, "" where it is not known.
const AttrEmptyFor = "empty_for"

// AttrServersOn is beside AttrEmpty: the node that all servers of the service run on, which are not ready; "" =
// they run on several, or there are none.
const AttrServersOn = "servers_on"

// AttrSlice is on an endpoint of a KindDatastore target that is in an EndpointSlice which no API server
// made: NAMESPACE/NAME.
const AttrSlice = "slice"

// AttrEndpoints is on a KindService target: its ready endpoints, as ADDRESS:PORT with commas between. It is absent
// where there are more than MaxEndpoints.
const (
	AttrEndpoints = "endpoints"
	MaxEndpoints  = 64 // some 1.5 kB of a plan
)

// AttrPool is the range of the IP pool that has the address of a KindLocal pod.
const AttrPool = "pool"

// AttrUID is Kubernetes' name for a KindLocal pod, which its processes' cgroups
// bear too.
const AttrUID = "uid"

// Attributes of a KindPool target. Its modes are Always, CrossSubnet or Never, also
// when it is disabled: then it gives out no more addresses, and those it gave stay.
const (
	AttrIPIP     = "ipip"
	AttrVXLAN    = "vxlan"
	AttrDisabled = "disabled"  // "true" or absent
	AttrNoExport = "no_export" // "true" where BGP is not to hand out its blocks
	// who makes the routes to other nodes' blocks of a pool without VXLAN, absent where that is not known
	AttrMakers = "makers"

	MakersFelix = "felix"
	MakersBIRD  = "bird"
	MakersBoth  = "both"
	MakersNone  = "none"
)

// Attributes of a KindTunnel target.
const (
	AttrDevice = "device" // tunl0, vxlan.calico, vxlan-v6.calico, wireguard.cali or wg-v6.cali
	AttrOuter  = "outer"  // the address Calico registered for the node: where the tunnel ends
	AttrMAC    = "mac"    // of the VXLAN device
	AttrKey    = "key"    // WireGuard's public one
)

// NameConfigured is the name of a KindDatastore target where calico-node is told to look for the API server,
// by other means than the service; AttrSetBy says what tells it.
const (
	NameConfigured = "configured"
	AttrSetBy      = "set_by"
)

// AttrReference is "true" on a KindOutside target of a third node: what a probe cannot reach there either, the network
// between nodes does not allow.
const AttrReference = "reference"

// AttrScheme is http or https on a KindDatastore target that is etcd.
const AttrScheme = "scheme"

// Attributes of a KindEncap target. The client gives one probe the role of the
// listener and, once that is heard to listen, the other that of the sender.
const (
	AttrRole  = "role"  // RoleListen or RoleSend
	AttrToken = "token" // what is sent, 32 bits, hexadecimal
	AttrUsed  = "used"  // "true" when the cluster sends its packets this way

	RoleListen = "listen"
	RoleSend   = "send"
)

// Attributes of a KindSession target.
const (
	AttrScope = "scope" // mesh, global or node: as Calico calls its peers; bgp on a KindOutside one
	AttrAS    = "as"    // the peer's AS number

	AttrFilters  = "filters"  // names of the BGPFilters of its BGPPeer, with commas
	AttrPassword = "password" // "true" when the session has one, and nothing else of it is sent
)

// FelixSettings are the attributes a KindFelix target carries beside its own,
// where they are set: under the names that FelixConfiguration has for them.
func FelixSettings() []string {
	return []string{
		"bpfEnabled", "defaultEndpointToHostAction", "iptablesBackend", "ipipMTU", "mtuIfacePattern", "nftablesMode",
		"programClusterRoutes", "vxlanMTU", "vxlanMTUV6", "vxlanPort", "vxlanVNI", "wireguardEnabled", "wireguardEnabledV6",
		"wireguardHostEncryptionEnabled",
		"wireguardListeningPort", "wireguardListeningPortV6", "wireguardMTU", "wireguardMTUV6",
	}
}

// AttrEnabled is "true" or "false" on a KindFelix target of which it is known whether
// its health endpoint is turned on.
const AttrEnabled = "enabled"

// AttrByLabels is on a KindFelix target where a policy admits pods by their labels: it is that policy. A pod whose
// packets come with the address of its node is none of those.
const AttrByLabels = "by_labels"

// AttrProbed is on a KindFelix target when calico-node's own probe asks another host
// than the one Felix is configured to answer at.
const AttrProbed = "probed"

// The kinds of target a plan names.
const (
	KindNode  = "node"  // another node's InternalIP
	KindPeer  = "peer"  // another node's Calico address, where it is not one of its InternalIPs
	KindPod   = "pod"   // a workload pod on another node; Port is one it declares for TCP, 0 when it declares none
	KindLocal = "local" // the same, on the node itself
	KindFelix = "felix" // where this node's Felix is configured to answer: Host and Port, where they are set

	KindSelf = "self" // an address Calico registered for this node itself
	// Name is Calico's networking backend on this node: bird, vxlan or none; Port is where BGP listens
	KindBackend = "backend"
	// where Calico's datastore answers: the API server's service and each endpoint, etcd's endpoints; Addr or
	// Host, and Port
	KindDatastore = "datastore"
	// a block of pod addresses, or one borrowed address: Name is its prefix, Addr the address of the node it
	// belongs to
	KindBlock    = "block"
	KindPool     = "pool"     // one of Calico's IP pools: Name is its prefix
	KindTunnel   = "tunnel"   // the address a node has inside a tunnel
	KindTypha    = "typha"    // where Typha answers: Addr and Port
	KindSession  = "session"  // a BGP session this node should have, by the API: Addr and Port
	KindService  = "service"  // a TCP service with ready endpoints, at its cluster IP: Addr and Port
	KindNodePort = "nodeport" // the same service at a node's own port: Name is the service, Node the node
	KindDNS      = "dns"      // where the cluster's DNS answers: its service and each endpoint, Addr and Port
	KindCalico   = "calico"   // Name is the version of Calico on this node, Attrs how it is to find its address
	// a way packets between this node and another may take: Name is VXLAN, IPIP, WireGuard or BGP, Port that of
	// UDP (TCP for BGP), 0 for IPIP
	KindEncap = "encap"
	// the node in question as its neighbours ask about it: Addr, and Port of TCP, 0 for a ping; AttrScope is set
	// where BGP listens; with a Name that is not the Node, a workload pod of it
	KindOutside = "outside"
	// a component of Kubernetes' with a log on this node: Name is kube-proxy or coredns, Host its pod, AttrLogs the
	// folder
	KindLogs    = "logs"
	KindRuntime = "runtime" // Name is the container runtime the kubelet reports: containerd://2.4.2
)

// WayNeighbour is the access method of answers about a node that come from baseline nodes.
const WayNeighbour = "neighbour"

// GapEtcd is the gap of what Calico keeps in an etcd of its own, which is not read: a
// check that wants it skips.
const GapEtcd = "kept in Calico's own etcd"

// GapNotCalicos is the gap of what a node has none of because no calico-node belongs on it, as where a
// migration to Calico has not come to it yet: a check that wants it skips.
const GapNotCalicos = "no calico-node belongs on this node"

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
	From    string   `json:"from,omitempty"` // the pod in whose network namespace the probe stands, "" = the node's own
	Checks  []string `json:"checks"`         // IDs, in order
	Targets []Target `json:"targets,omitempty"`
	// Gaps are the kinds of target that could not be listed, and why: a check
	// without targets of such a kind answers unknown.
	Gaps map[string]string `json:"gaps,omitempty"`
	// Now is the API server's clock when the plan was made, zero when not known.
	Now time.Time `json:"now,omitzero"`
	// Brief asks for a moment's look: fewer packets a ping, and no second reading where two are compared.
	Brief bool `json:"brief,omitempty"`
	// Limit, when set, replaces every check's own deadline.
	Limit time.Duration `json:"limit_ns,omitempty"`
}
