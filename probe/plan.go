package probe

import (
	"net/netip"
	"strings"
	"time"
)

// Version is the version of the wire format. It rises when the meaning of an existing field changes. New fields and
// event types do not raise it.
const Version = 1

// AttrNode is set on targets of a node that is not Ready: NodeNotReady or NodeSilent.
const AttrNode = "node"

// The states in the API of a node that is not Ready.
const (
	NodeNotReady = "NotReady"                         // reported by its kubelet
	NodeSilent   = "NotReady (its kubelet is silent)" // its lease has expired
)

// Attributes of a KindCalico target: calico-node's configured environment ("autodetect", "none", an address;
// "first-found", "can-reach=...") and the Kubernetes Node's InternalIPs, separated by commas.
const (
	AttrIP       = "ip"
	AttrIP6      = "ip6"
	AttrMethod   = "method"
	AttrMethod6  = "method6"
	AttrInternal = "internal"
	AttrPodCIDRs = "pod_cidrs" // of the Kubernetes Node, separated by commas
	AttrLogs     = "logs"      // folder of the logs of calico-node's pod, or a KindLogs target's: NAMESPACE_POD_UID
	AttrAccount  = "account"   // of calico-node: NAMESPACE:NAME
	// the node's folders that calico-node mounts at /var/run/calico and /var/lib/calico, if they differ from these paths
	AttrRunFolder = "run_folder"
	AttrLibFolder = "lib_folder"
	AttrBudget    = "budget_s" // seconds from a start to the first success that its liveness or readiness probe allows
)

// AttrOwn is "true" on a KindBlock or KindTunnel target of the node itself.
const AttrOwn = "own"

// AttrPolicy is set on targets that a network policy may block: its name. If policies could not be read, AttrUnread
// has the reason instead.
const (
	AttrPolicy = "policy"
	AttrUnread = "unread"
)

// AttrDenies is set beside AttrPolicy if that policy certainly denies every packet in a direction, from any sender
// and of any protocol: DeniesIngress, DeniesEgress, or both with a comma.
const (
	AttrDenies    = "denies"
	DeniesIngress = "ingress"
	DeniesEgress  = "egress"
)

// AttrOwnNetwork is set on a pod that may change its own network: the right that allows this, such as NET_ADMIN.
const AttrOwnNetwork = "own_network"

// AttrEmpty is set on the service of a KindDNS target without a ready endpoint: a sentence about this and the expected
// pods' state in the API.
const AttrEmpty = "empty"

// AttrEmptyFor is set beside AttrEmpty: the reason in one word, or "" when unknown.
const AttrEmptyFor = "empty_for"

// AttrServersOn is set beside AttrEmpty: the node that runs all servers of the service, all unready. "" = the servers
// run on several nodes, or do not exist.
const AttrServersOn = "servers_on"

// AttrSlice is set on an endpoint of a KindDatastore target from an EndpointSlice that no API server created:
// NAMESPACE/NAME.
const AttrSlice = "slice"

// AttrEndpoints is set on a KindService target: its ready endpoints, as ADDRESS:PORT separated by commas. It is
// absent if there are more than MaxEndpoints.
const (
	AttrEndpoints = "endpoints"
	MaxEndpoints  = 64 // about 1.5 kB of a plan
)

// Endpoints returns the addresses of AttrEndpoints, without parts that are none.
func (t Target) Endpoints() []netip.AddrPort {
	var out []netip.AddrPort
	for text := range strings.SplitSeq(t.Attrs[AttrEndpoints], ",") {
		if at, err := netip.ParseAddrPort(text); err == nil {
			out = append(out, at)
		}
	}
	return out
}

// AttrPool is the range of the IP pool that contains the address of a KindLocal pod.
const AttrPool = "pool"

// AttrUID is the Kubernetes UID of a KindLocal pod, which is also in the names of its processes' cgroups.
const AttrUID = "uid"

// Attributes of a KindPool target. Its modes are Always, CrossSubnet or Never, also while it is disabled. A disabled
// pool assigns no more addresses, but assigned addresses stay.
const (
	AttrIPIP     = "ipip"
	AttrVXLAN    = "vxlan"
	AttrDisabled = "disabled"  // "true" or absent
	AttrNoExport = "no_export" // "true" if BGP must not advertise its blocks
	// the component that creates the routes to other nodes' blocks of a pool without VXLAN, absent when unknown
	AttrMakers = "makers"

	MakersFelix = "felix"
	MakersBIRD  = "bird"
	MakersBoth  = "both"
	MakersNone  = "none"
)

// Attributes of a KindTunnel target.
const (
	AttrDevice = "device" // tunl0, vxlan.calico, vxlan-v6.calico, wireguard.cali or wg-v6.cali
	AttrOuter  = "outer"  // the address that Calico registered for the node: the tunnel's outer address
	AttrMAC    = "mac"    // of the VXLAN device
	AttrKey    = "key"    // WireGuard's public key
)

// NameConfigured is the name of a KindDatastore target for an API address that is configured for calico-node directly,
// not through the service. AttrSetBy is where it is configured.
const (
	NameConfigured = "configured"
	AttrSetBy      = "set_by"
)

// AttrReference is "true" on a KindOutside target of a third node. If the probe cannot reach the third node either, the
// network between nodes blocks the path.
const AttrReference = "reference"

// AttrScheme is http or https on a KindDatastore target that is etcd.
const AttrScheme = "scheme"

// Attributes of a KindEncap target. The client assigns one probe the role of the listener. Once that probe listens,
// the client assigns the other the role of the sender.
const (
	AttrRole  = "role"  // RoleListen or RoleSend
	AttrToken = "token" // the token to send, 32 bits, hexadecimal
	AttrUsed  = "used"  // "true" if the cluster uses this encapsulation

	RoleListen = "listen"
	RoleSend   = "send"
)

// Attributes of a KindSession target.
const (
	AttrScope = "scope" // mesh, global or node, as Calico calls peers; bgp on a KindOutside target
	AttrAS    = "as"    // the peer's AS number

	AttrFilters  = "filters"  // names of the BGPFilters of its BGPPeer, with commas
	AttrPassword = "password" // "true" if the session has a password; the password itself is never sent
)

// FelixSettings returns the attributes of a KindFelix target that FelixConfiguration sets, under FelixConfiguration's
// names.
func FelixSettings() []string {
	return []string{
		"bpfEnabled", "defaultEndpointToHostAction", "iptablesBackend", "ipipMTU", "mtuIfacePattern", "nftablesMode",
		"programClusterRoutes", "vxlanMTU", "vxlanMTUV6", "vxlanPort", "vxlanVNI", "wireguardEnabled", "wireguardEnabledV6",
		"wireguardHostEncryptionEnabled",
		"wireguardListeningPort", "wireguardListeningPortV6", "wireguardMTU", "wireguardMTUV6",
	}
}

// AttrEnabled is "true" or "false" on a KindFelix target: whether its health endpoint is enabled. It is absent when
// unknown.
const AttrEnabled = "enabled"

// AttrByLabels is set on a KindFelix target if a policy allows pods by labels: the policy's name. Such a policy does
// not match a pod whose packets arrive with its node's address.
const AttrByLabels = "by_labels"

// AttrProbed is set on a KindFelix target if calico-node's liveness or readiness probe uses another host than Felix's
// configured listen address.
const AttrProbed = "probed"

// The kinds of targets in a plan.
const (
	KindNode  = "node"  // another node's InternalIP
	KindPeer  = "peer"  // another node's Calico address, if not one of its InternalIPs
	KindPod   = "pod"   // a workload pod on another node; Port is a declared TCP port, 0 if it declares none
	KindLocal = "local" // a workload pod on the node itself
	KindFelix = "felix" // this node's configured Felix listen address: Host and Port, if set

	KindSelf = "self" // an address that Calico registered for this node
	// Name is Calico's networking backend on this node: bird, vxlan or none; Port is where BGP listens
	KindBackend = "backend"
	// where Calico's datastore listens: the API server's service and each endpoint, or etcd's endpoints; Addr or
	// Host, and Port
	KindDatastore = "datastore"
	// a block of pod addresses, or one borrowed address: Name is the prefix, Addr the address of its node
	KindBlock    = "block"
	KindPool     = "pool"     // one of Calico's IP pools: Name is its prefix
	KindTunnel   = "tunnel"   // a node's address inside a tunnel
	KindTypha    = "typha"    // where Typha listens: Addr and Port
	KindSession  = "session"  // a BGP session that this node should have, from the API: Addr and Port
	KindService  = "service"  // a TCP service with ready endpoints, at its cluster IP: Addr and Port
	KindNodePort = "nodeport" // the node port of a service: Name is the service, Node the node
	KindDNS      = "dns"      // the cluster's DNS: its service and each endpoint, Addr and Port
	KindCalico   = "calico"   // Name is the version of Calico on this node, Attrs its address detection
	// a possible path of packets between this node and another: Name is VXLAN, IPIP, WireGuard or BGP, Port is the
	// UDP port (TCP for BGP), 0 for IPIP
	KindEncap = "encap"
	// the node in question as a target for its baseline nodes: Addr, and a TCP Port, 0 for a ping. AttrScope is set
	// where BGP listens. If Name is not the Node, it is a workload pod of the node
	KindOutside = "outside"
	// a component of Kubernetes with a log on this node: Name is kube-proxy or coredns, Host its pod, AttrLogs the
	// folder
	KindLogs    = "logs"
	KindRuntime = "runtime" // Name is the container runtime the kubelet reports: containerd://2.4.2
)

// MethodBaseline is the access method of answers that baseline nodes report about a node. In --via it is called
// outside. The older value stays because saved runs have it.
const MethodBaseline = "neighbour"

// GapEtcd is the gap of data that Calico keeps in its own etcd, which calico-probe does not read. A check that needs
// this data is skipped.
const GapEtcd = "kept in Calico's own etcd"

// GapNotCalicos is the gap of data that a node lacks because no calico-node belongs on it, for example during a
// migration to Calico. A check that needs this data is skipped.
const GapNotCalicos = "no calico-node belongs on this node"

// Target is one object that a check is about, such as a peer or a pod.
type Target struct {
	Kind string     `json:"kind"`
	Name string     `json:"name"`           // node name, namespace/pod
	Node string     `json:"node,omitempty"` // the target's node
	Addr netip.Addr `json:"addr,omitzero"`
	Host string     `json:"host,omitempty"` // a host name that the node resolves
	Port int        `json:"port,omitempty"`
	// Attrs are settings of the target; each kind defines its own.
	Attrs map[string]string `json:"attrs,omitempty"`
}

// String names the target in results: "node-b 10.0.0.2".
func (t Target) String() string {
	if t.Addr.IsValid() {
		return t.Name + " " + t.Addr.String()
	}
	return t.Name
}

// Plan lists what one probe must check. It is sent as one JSON line.
type Plan struct {
	Run     string   `json:"run"`            // run ID, which distinguishes runs in logs and labels
	Node    string   `json:"node,omitempty"` // the node's name in Kubernetes
	Method  string   `json:"way,omitempty"`  // the access method
	From    string   `json:"from,omitempty"` // the pod in whose network namespace the probe runs, "" = the node's own
	Checks  []string `json:"checks"`         // IDs, in order
	Targets []Target `json:"targets,omitempty"`
	// Gaps are the kinds of targets that could not be listed, and why. A check without targets of such a kind is
	// unknown.
	Gaps map[string]string `json:"gaps,omitempty"`
	// Now is the API server's clock when the plan was created, zero when unknown.
	Now time.Time `json:"now,omitzero"`
	// Brief shortens the run: fewer packets per ping, and one reading in checks that compare two.
	Brief bool `json:"brief,omitempty"`
	// Limit, if set, replaces every check's own deadline.
	Limit time.Duration `json:"limit_ns,omitempty"`
}
