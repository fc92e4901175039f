package probe

import (
	"net/netip"
	"strings"
	"time"
)

// Version is the version of the wire format. It rises if the meaning of an existing field changes. New fields and
// event types do not raise it.
const Version = 1

// AttrNode is set on a target if its node is not Ready. The value is NodeNotReady or NodeSilent.
const AttrNode = "node"

// The API's states for a node that is not Ready.
const (
	NodeNotReady = "NotReady"                         // reported by its kubelet
	NodeSilent   = "NotReady (its kubelet is silent)" // its lease has expired
)

// Attributes of a KindCalico target. They hold calico-node's configured environment ("autodetect", "none",
// an address; "first-found", "can-reach=...") and the Kubernetes Node's InternalIPs, separated by commas.
const (
	AttrIP       = "ip"
	AttrIP6      = "ip6"
	AttrMethod   = "method"
	AttrMethod6  = "method6"
	AttrInternal = "internal"
	AttrPodCIDRs = "pod_cidrs" // from the Kubernetes Node, separated by commas
	AttrLogs     = "logs"      // folder with the logs of calico-node's pod or a KindLogs target: NAMESPACE_POD_UID
	AttrAccount  = "account"   // of calico-node: NAMESPACE:NAME
	// the node's folders that calico-node mounts at /var/run/calico and /var/lib/calico, if their paths differ
	AttrRunFolder = "run_folder"
	AttrLibFolder = "lib_folder"
	AttrBudget    = "budget_s" // seconds after a start within which its Kubernetes probe must first succeed
)

// AttrOwn is "true" on a KindBlock or KindTunnel target that belongs to the node itself.
const AttrOwn = "own"

// AttrPolicy is set on a target that a network policy may block. The value is the policy's name. If the policies
// could not be read, AttrUnread holds the reason instead.
const (
	AttrPolicy = "policy"
	AttrUnread = "unread"
)

// AttrDenies is set in addition to AttrPolicy if that policy certainly denies every packet in a direction, for all
// senders and protocols. The value is DeniesIngress, DeniesEgress, or both with a comma.
const (
	AttrDenies    = "denies"
	DeniesIngress = "ingress"
	DeniesEgress  = "egress"
)

// AttrOwnNetwork is set on a pod that may change its own network. The value is the right that
// allows this, such as NET_ADMIN.
const AttrOwnNetwork = "own_network"

// AttrEmpty is set on the service of a KindDNS target if the service has no ready endpoint. The value is a sentence
// about this and about the expected pods' state in the API.
const AttrEmpty = "empty"

// AttrEmptyFor is set in addition to AttrEmpty. The value is the reason in one word, or "" if unknown.
const AttrEmptyFor = "empty_for"

// AttrServersOn is set in addition to AttrEmpty. The value is the node that runs all of the service's servers, if
// all of them are unready. "" means that the servers run on several nodes, or do not exist.
const AttrServersOn = "servers_on"

// AttrSlice is set on an endpoint of a KindDatastore target if it comes from an EndpointSlice that no API
// server created. The value is NAMESPACE/NAME.
const AttrSlice = "slice"

// AttrEndpoints is set on a KindService target. It lists the service's ready endpoints, as ADDRESS:PORT
// separated by commas. It is absent if there are more than MaxEndpoints.
const (
	AttrEndpoints = "endpoints"
	MaxEndpoints  = 64 // about 1.5 kB of a plan
)

// Endpoints returns the addresses in AttrEndpoints. It skips parts that are not addresses.
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

// AttrUID is the Kubernetes UID of a KindLocal pod. The cgroup names of the pod's processes also contain it.
const AttrUID = "uid"

// Attributes of a KindPool target. The modes are Always, CrossSubnet or Never, even if the pool is disabled. A
// disabled pool does not assign new addresses, but pods keep the addresses that it assigned.
const (
	AttrIPIP     = "ipip"
	AttrVXLAN    = "vxlan"
	AttrDisabled = "disabled"  // "true" or absent
	AttrNoExport = "no_export" // "true" if BGP must not advertise the pool's blocks
	// the component that creates the routes to other nodes' blocks in a pool without VXLAN, absent if unknown
	AttrMakers = "makers"

	MakersFelix = "felix"
	MakersBIRD  = "bird"
	MakersBoth  = "both"
	MakersNone  = "none"
)

// Attributes of a KindTunnel target.
const (
	AttrDevice = "device" // tunl0, vxlan.calico, vxlan-v6.calico, wireguard.cali or wg-v6.cali
	AttrOuter  = "outer"  // the address that Calico registered for the node, which is the tunnel's outer address
	AttrMAC    = "mac"    // MAC address of the VXLAN device
	AttrKey    = "key"    // WireGuard's public key
)

// NameConfigured is the name of a KindDatastore target if its API address is configured directly for calico-node, not
// through the service. AttrSetBy is the place where it is configured.
const (
	NameConfigured = "configured"
	AttrSetBy      = "set_by"
)

// AttrReference is "true" on a KindOutside target that is a third node. If the probe cannot reach the third node
// either, the network between the nodes blocks the path.
const AttrReference = "reference"

// AttrScheme is http or https on a KindDatastore target that is an etcd endpoint.
const AttrScheme = "scheme"

// Attributes of a KindEncap target. The client assigns one probe the role of the listener. When that probe listens,
// the client assigns the other probe the role of the sender.
const (
	AttrRole  = "role"  // RoleListen or RoleSend
	AttrToken = "token" // the token to send, 32 bits in hexadecimal
	AttrUsed  = "used"  // "true" if the cluster uses this encapsulation

	RoleListen = "listen"
	RoleSend   = "send"
)

// Attributes of a KindSession target.
const (
	AttrScope = "scope" // mesh, global or node, as Calico calls peers; bgp on a KindOutside target
	AttrAS    = "as"    // the peer's AS number

	AttrFilters  = "filters"  // names of the BGPFilters in its BGPPeer, separated by commas
	AttrPassword = "password" // "true" if the session has a password; the password itself is never sent
)

// FelixSettings returns the attributes of a KindFelix target that come from FelixConfiguration, under the names that
// FelixConfiguration uses.
func FelixSettings() []string {
	return []string{
		"bpfEnabled", "defaultEndpointToHostAction", "iptablesBackend", "ipipMTU", "mtuIfacePattern", "nftablesMode",
		"programClusterRoutes", "vxlanMTU", "vxlanMTUV6", "vxlanPort", "vxlanVNI", "wireguardEnabled", "wireguardEnabledV6",
		"wireguardHostEncryptionEnabled",
		"wireguardListeningPort", "wireguardListeningPortV6", "wireguardMTU", "wireguardMTUV6",
	}
}

// AttrEnabled is set on a KindFelix target. It is "true" if Felix's health endpoint is enabled, and otherwise
// "false". It is absent if unknown.
const AttrEnabled = "enabled"

// AttrByLabels is set on a KindFelix target if a policy allows pods by labels. The value is the policy's name. Such
// a policy does not match a pod if the pod's packets arrive with its node's address.
const AttrByLabels = "by_labels"

// AttrProbed is set on a KindFelix target if calico-node's liveness or readiness probe uses a host other than Felix's
// configured listen address.
const AttrProbed = "probed"

// The kinds of targets in a plan.
const (
	KindNode  = "node"  // another node's InternalIP
	KindPeer  = "peer"  // another node's Calico address, if it is not one of the node's InternalIPs
	KindPod   = "pod"   // a workload pod on another node; Port is a TCP port that it declares, 0 if it declares none
	KindLocal = "local" // a workload pod on this node
	KindFelix = "felix" // Felix's configured listen address on this node: Host and Port, if set

	KindSelf = "self" // an address that Calico registered for this node
	// Name is Calico's networking backend on this node: bird, vxlan or none; Port is where BGP listens
	KindBackend = "backend"
	// where Calico's datastore listens: the API server's service and its endpoints, or etcd's endpoints; Addr or
	// Host, and Port
	KindDatastore = "datastore"
	// a block of pod addresses, or one borrowed address: Name is the prefix, Addr the address of the block's node
	KindBlock    = "block"
	KindPool     = "pool"     // one of Calico's IP pools: Name is its prefix
	KindTunnel   = "tunnel"   // a node's address inside a tunnel
	KindTypha    = "typha"    // where Typha listens: Addr and Port
	KindSession  = "session"  // a BGP session that this node should have, from the API: Addr and Port
	KindService  = "service"  // a TCP service with ready endpoints, at its cluster IP: Addr and Port
	KindNodePort = "nodeport" // a service's node port: Name is the service, Node the node
	KindDNS      = "dns"      // the cluster's DNS: its service and the service's endpoints, Addr and Port
	KindCalico   = "calico"   // Name is the Calico version on this node, Attrs its address detection
	// a path that packets may take between this node and another: Name is VXLAN, IPIP, WireGuard or BGP, Port is
	// the UDP port (TCP for BGP), 0 for IPIP
	KindEncap = "encap"
	// the node in question, as a target for its baseline nodes: Addr, and a TCP Port, or 0 for a ping. AttrScope is
	// set where BGP listens. If Name is not the Node's name, it is a workload pod on the node
	KindOutside = "outside"
	// a Kubernetes component that has a log on this node: Name is kube-proxy or coredns, Host its pod, AttrLogs
	// the folder
	KindLogs    = "logs"
	KindRuntime = "runtime" // Name is the container runtime that the kubelet reports: containerd://2.4.2
)

// MethodBaseline is the access method of answers that baseline nodes report about a node. The --via flag calls
// it outside. The old value remains because saved runs contain it.
const MethodBaseline = "neighbour"

// GapEtcd is the gap that arises if Calico keeps data in its own etcd, which calico-probe does not read. The client
// skips a check that needs this data.
const GapEtcd = "kept in Calico's own etcd"

// GapNotCalicos is the gap that arises if a node has no data because calico-node is not meant to run there, for
// example during a migration to Calico. The client skips a check that needs this data.
const GapNotCalicos = "no calico-node belongs on this node"

// Target is one object that a check concerns, such as a peer or a pod.
type Target struct {
	Kind string     `json:"kind"`
	Name string     `json:"name"`           // node name, namespace/pod
	Node string     `json:"node,omitempty"` // the node where the target is
	Addr netip.Addr `json:"addr,omitzero"`
	Host string     `json:"host,omitempty"` // a host name that the node resolves
	Port int        `json:"port,omitempty"`
	// Attrs holds the target's settings. Each kind defines its own settings.
	Attrs map[string]string `json:"attrs,omitempty"`
}

// String returns the target's name as results show it: "node-b 10.0.0.2".
func (t Target) String() string {
	if t.Addr.IsValid() {
		return t.Name + " " + t.Addr.String()
	}
	return t.Name
}

// Plan lists everything that one probe must check. The client sends it as one line of JSON.
type Plan struct {
	Run     string   `json:"run"`            // run ID, which distinguishes runs in logs and labels
	Node    string   `json:"node,omitempty"` // the node's name in Kubernetes
	Method  string   `json:"way,omitempty"`  // the access method
	From    string   `json:"from,omitempty"` // the pod in whose network namespace the probe runs, "" = the node's own
	Checks  []string `json:"checks"`         // IDs, in the order in which they run
	Targets []Target `json:"targets,omitempty"`
	// Gaps maps each kind of target that could not be listed to the reason. If a check lacks targets because of
	// such a gap, its result is unknown.
	Gaps map[string]string `json:"gaps,omitempty"`
	// Now is the time on the API server's clock when the plan was created. It is zero if unknown.
	Now time.Time `json:"now,omitzero"`
	// Brief shortens the run: each ping sends fewer packets, and checks that compare two readings use only one.
	Brief bool `json:"brief,omitempty"`
	// If Limit is set, it replaces every check's own deadline.
	Limit time.Duration `json:"limit_ns,omitempty"`
}
