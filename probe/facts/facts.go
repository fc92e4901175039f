// Package facts names what the causes in internal/subject read of results that do not come from
// a node: the IDs of the checks that the Kubernetes API answers, the keys of their facts, and the
// reasons why a probe could not be placed.
//
// The packages that write these values (cluster, injector) need the Kubernetes libraries; the one
// that reads them must not. So the names live here, and this package imports nothing but probe:
//
//	// cluster writes:
//	report(probe.Found(probe.Fail, "lease renewed %s ago", age).With(facts.Age, seconds))
//	// a cause reads:
//	for _, r := range f.Of(facts.CheckNodeLease) { age, known := r.Facts.Num(facts.Age) ... }
//
// The names of the checks on the node live in internal/subject, beside each check.
package facts

import "github.com/calico-probe/calico-probe/probe"

// IDs of the checks that the API answers.
const (
	CheckNodeReady      = "node-ready"
	CheckNodeLease      = "node-lease"
	CheckNodeTaints     = "node-taints"
	CheckCalicoPod      = "calico-pod"
	CheckCalicoBudget   = "calico-budget"
	CheckControllers    = "calico-controllers"
	CheckIPRegistered   = "ip-registered"
	CheckDatastoreReady = "datastore-ready"
	CheckPodsStart      = "pods-start"
	CheckPodsEnd        = "pods-end"
	CheckCalicoRights   = "calico-rights"
	CheckHostEndpoints  = "host-endpoints"
	CheckRouteMakers    = "route-makers"
	CheckCalicoKind     = "calico-kind"
	CheckServiceClaims  = "service-claims"
	CheckProxyRights    = "proxy-rights"
	CheckDNSService     = "dns-service"

	CheckServiceEndpoints = "service-endpoints"
	CheckServicePolicies  = "service-policies"
	CheckDNSPolicies      = "dns-policies"
	CheckPodPolicies      = "pod-policies"
	CheckAPIPolicies      = "api-policies"
	CheckAccounts         = "calico-accounts"
	CheckIPPools          = "ip-pools"
	CheckBGPPeering       = "bgp-peering"
)

// Facts of these checks.
const (
	Account        probe.Fact = "account"         // whose rights it is about: NAMESPACE:NAME
	AccountOf      probe.Fact = "account_of"      // whose account: one of the Account words
	AccountUID     probe.Fact = "account_uid"     // the API server's ID of it, by which its tokens are known
	Age            probe.Fact = "age_s"           // seconds
	Addresses      probe.Fact = "addresses"       // endpoints that no pod has, some of them
	AddressesOfPod probe.Fact = "family"          // of the addresses that pods do not get: 4 or 6
	Answered       probe.Fact = "answered"        // whether a connection opened, and what answered is not what was wanted
	APIOutside     probe.Fact = "api_outside"     // true: every API server has an address that is no node's and no pod's
	APIReason      probe.Fact = "api_reason"      // the API's own word: KubeletNotReady, CrashLoopBackOff, Init:0/3
	Budget         probe.Fact = "budget_s"        // seconds from a container's start to its kill without a good answer
	Blocks         probe.Fact = "blocks"          // blocks of pod addresses that belong to the node
	BlockLimit     probe.Fact = "block_limit"     // how many of them one node may have
	Borrowed       probe.Fact = "borrowed"        // addresses of the node's blocks that pods elsewhere have
	BudgetProbe    probe.Fact = "probe"           // which Kubernetes probe sets that budget: liveness or startup
	Container      probe.Fact = "container"       // container name
	ControlPlane   probe.Fact = "server"          // whether the node is of the control plane, by its labels
	ConfigMap      probe.Fact = "config_map"      // its name
	Cordoned       probe.Fact = "cordoned"        // list of pods that wait for the node to be uncordoned
	DatastoreReady probe.Fact = "datastore_ready" // ClusterInformation's switch of that name
	Empty          probe.Fact = "empty"           // why a Service has no ready endpoint: one of the Empty words
	ExitCode       probe.Fact = "exit_code"       // of the last termination
	CPULimit       probe.Fact = "cpu_limit_m"     // thousandths of a CPU that calico-node may use
	FreeBlocks     probe.Fact = "free_blocks"     // blocks that nobody has yet, in the pools that the node may use
	FreeElsewhere  probe.Fact = "free_elsewhere"  // free addresses in blocks of other nodes, in the same pools
	FreeHere       probe.Fact = "free_here"       // free addresses in the node's blocks
	Full           probe.Fact = "full"            // whether the node has as many pods as it may have
	RenamedTo      probe.Fact = "renamed_to"      // the Node that the machine reports as now
	Group          probe.Fact = "group"           // the API group in which Calico keeps its resources
	HostEndpoint   probe.Fact = "host_endpoint"   // name of a HostEndpoint
	Reflectors     probe.Fact = "reflectors"      // list of nodes that are route reflectors by their annotation
	IdlePeers      probe.Fact = "idle_peers"      // list of BGPPeers that make no session on any node, with the reason
	Image          probe.Fact = "image"           // image of the calico-node container
	Internal       probe.Fact = "internal_ip"     // the Node's InternalIP of that family
	Kubelet        probe.Fact = "kubelet"         // its version, which names k3s, RKE2 and k0s
	KubeletStarts  probe.Fact = "kubelet_starts"  // how often the kubelet has started lately
	KubeProxy      probe.Fact = "kube_proxy"      // list of the running kube-proxy pods on the node, by name
	Lacks          probe.Fact = "lacks"           // list of rights, VERB RESOURCE, or of kinds
	OfPlugin       probe.Fact = "of_plugin"       // true: of the CNI plugin's account
	LacksRight     probe.Fact = "lacks_right"     // the right that the API server refuses the user, in words
	LacksUser      probe.Fact = "lacks_user"      // the user of the API whom the API server refuses a right
	LastEnd        probe.Fact = "last_end"        // how the last run of a container ended: OOMKilled, Error
	Later          probe.Fact = "later"           // whether it bites only at the next start
	Leaked         probe.Fact = "leaked"          // addresses that IPAM keeps for pods that are gone
	Lived          probe.Fact = "lived_s"         // seconds the last run of a container lived
	MeshOff        probe.Fact = "mesh_off"        // whether nodeToNodeMeshEnabled is false
	Message        probe.Fact = "message"         // the kubelet's words about a container
	Makers         probe.Fact = "makers"          // what is wrong with who makes routes: both, or none
	NextMakers     probe.Fact = "next_makers"     // the same from Calico v3.33 on: both, none, stay or move
	Migration      probe.Fact = "migration"       // a DatastoreMigration and its phase
	NoToken        probe.Fact = "no_token"        // true: calico-node's containers are given no token of their account
	NotStarted     probe.Fact = "not_started"     // whether a container's program could not be started at all
	Memory         probe.Fact = "memory"          // bytes a container killed for memory may use, 0 = no limit
	OnDevice       probe.Fact = "on_device"       // the interface a HostEndpoint names, "" = it names addresses
	OnAddress      probe.Fact = "on_address"      // whether a HostEndpoint is surely about the node's InternalIP
	NotLooked      probe.Fact = "not_looked"      // list of the parts of an installation that no check looks at
	Operator       probe.Fact = "operator"        // whether the Tigera operator made the calico-node pod
	Over           probe.Fact = "over"            // whether the present run has been ready for a while
	OtherPools     probe.Fact = "other_pools"     // list of the node's pools of the other family, where one has none
	UnfitPools     probe.Fact = "unfit_pools"     // list of the pools that are not for pods of the node, with the reason
	Owner          probe.Fact = "owner"           // name of the DaemonSet that controls a pod
	Period         probe.Fact = "period_s"        // seconds between two attempts of the probe that sets the budget
	Phase          probe.Fact = "phase"           // pod phase
	Pod            probe.Fact = "pod"             // namespace/name
	Plugin         probe.Fact = "plugin"          // the CNI plugin that refuses, "" where the message names none
	DNSPort        probe.Fact = "dns_port"        // where the pods of the cluster's DNS answer
	DNSNamespace   probe.Fact = "dns_namespace"   // of those pods
	DNSKept        probe.Fact = "dns_kept"        // how: unlisted, denied, missed, shut, nowhere, noegress
	BySet          probe.Fact = "by_set"          // the network set that a policy denies, with its network
	DNSClosed      probe.Fact = "dns_closed"      // true: no policy lets questions in to them
	NamedPods      probe.Fact = "named_pods"      // list of some of the pods that it is about, NAMESPACE/NAME
	Pods           probe.Fact = "pods"            // count of pods that do not start for the same reason
	Corroborated   probe.Fact = "corroborated"    // true: not one tenant alone can have made what is said
	OfDNS          probe.Fact = "of_dns"          // whether the Service is that of the cluster's DNS
	Pools          probe.Fact = "pools"           // list of the IP pools that the node's pods may have addresses of
	Registered     probe.Fact = "registered"      // address Calico registered, without its prefix length
	Restarts       probe.Fact = "restarts"        // count
	Reserved       probe.Fact = "reserved"        // addresses that IPReservations keep from being given away
	Runtime        probe.Fact = "runtime"         // kind of container runtime: containerd, cri-o, docker
	Service        probe.Fact = "service"         // namespace/name
	Services       probe.Fact = "services"        // some of the services that it is about
	Slice          probe.Fact = "slice"           // EndpointSlice, namespace/name
	Policy         probe.Fact = "policy"          // a policy, with its kind
	ShutBy         probe.Fact = "shut_by"         // the policy that denies, "" = none selects the HostEndpoint
	ShutLoopback   probe.Fact = "shut_loopback"   // true: nothing lets in what comes from 127.0.0.1
	ShutOut        probe.Fact = "shut_out"        // true: nothing the node itself sends is let out, but to failsafe ports
	ShutPorts      probe.Fact = "shut_ports"      // list of the TCP ports of the node that nothing lets in
	Skips          probe.Fact = "skips"           // why a DaemonSet makes no pod for the node: one of the Skips words
	SkippedFor     probe.Fact = "skipped_for"     // the selector or the taint, in a sentence
	SkippedBy      probe.Fact = "skipped_by"      // the label KEY=VALUE that is missing, or the taint
	Short          probe.Fact = "short"           // why there is no address: one of the Short words
	TakenPorts     probe.Fact = "taken_ports"     // list of the ports of the node that a Service takes
	Starts         probe.Fact = "starts"          // what keeps pods from starting: one of the Starts words
	Taints         probe.Fact = "taints"          // list of key=value:effect
	ToldOutside    probe.Fact = "told_outside"    // whether BGP may tell routers that are no nodes of the pods
	Unready        probe.Fact = "unready"         // what the kubelet says is not ready: list of Unready words
	Unprivileged   probe.Fact = "unprivileged"    // true: calico-node has neither privilege nor CAP_NET_ADMIN
	Writer         probe.Fact = "writer"          // what wrote a condition of the Node last, by its own name
	Zones          probe.Fact = "zones"           // list of the DNS zones that CoreDNS answers for from the API
)

// Words of the fact AccountOf, and of probe.FactReason in results of calico-accounts.
const (
	AccountNode        = "node"        // calico-node's own
	AccountCNI         = "cni"         // that of which calico-node makes tokens for the CNI plugin
	AccountControllers = "controllers" // that of calico-kube-controllers
	AccountGone        = "gone"        // there is no such account
	AccountRemade      = "remade"      // it is younger than the pod that has a token of it
)

// Words of probe.FactReason in results of ip-pools.
const (
	PoolHasNodes    = "nodes"           // addresses of nodes are in it
	PoolHasServices = "services"        // cluster IPs are
	PoolHasAPI      = "api"             // an API server that is no node has its address in it
	PoolUnexported  = "not-exported"    // BGP does not tell of its blocks
	PoolUnmasked    = "not-masqueraded" // its pods keep their addresses outside
)

// Targets of service-policies.
const (
	ServicesLocal    = "local"     // those that use endpoints of the node that is asked alone
	ServicesBySource = "by source" // those whose pods a policy lets be reached by certain pods alone
)

// NoBGPPeer is a word of probe.FactReason in results of bgp-peering: nobody is there to learn routes from.
const NoBGPPeer = "no-peer"

// BadBGPPeer is another: a BGPPeer whose address or selector cannot be read.
const BadBGPPeer = "bad-peer"

// ControllersNone is a word of probe.FactReason in results of calico-controllers: none is there.
const ControllersNone = "none"

// Words of the fact Empty.
const (
	EmptySelector   = "selector"    // no pod has the labels of its selector, and others are like those
	EmptyAbsent     = "absent"      // no pod has them, and none is like those
	EmptyNoSelector = "no-selector" // it has none, and nobody made an EndpointSlice that is ready
	EmptyScaled     = "scaled"      // its Deployment asks for no replica
	EmptyNotMade    = "not-made"    // the API server does not let the pods be made
	EmptyUnready    = "unready"     // its pods are not ready
	EmptyPort       = "port"        // its targetPort is no port of its pods
	EmptyController = "controller"  // nobody makes its EndpointSlices
	EmptyOtherProxy = "other-proxy" // its label leaves it to another program than kube-proxy
	EmptyNoUDP      = "no-udp"      // a DNS Service without port 53 UDP
	EmptyLocal      = "local"       // a node uses only endpoints of its own (internalTrafficPolicy), and this one has none
)

// Words of the fact Unready.
const (
	UnreadyRuntime = "runtime" // the container runtime does not answer the kubelet
	UnreadyPLEG    = "pleg"    // the runtime no longer tells the kubelet which containers changed
	UnreadyNetwork = "network" // the runtime has no usable network configuration
)

// Words of the fact Starts: what pods of a node do not start for, by what the kubelet says.
const (
	StartsAddresses = "addresses" // IPAM has no address
	StartsCNI       = "cni"       // the CNI plugin fails in another way
	StartsNetwork   = "network"   // the runtime has no network configuration
	StartsSandbox   = "sandbox"   // the runtime makes no sandbox, and not for the network
	StartsImage     = "image"     // registries do not answer the node
	StartsVolume    = "volume"    // a volume cannot be mounted
	StartsContainer = "container" // the runtime makes no container
	StartsUnsaid    = "unsaid"    // the kubelet says nothing
	StartsRefused   = "refused"   // the kubelet's admission refuses them
	StartsOwn       = "own"       // the pod's own: no such image, no such ConfigMap, its program ends
	StartsPulling   = "pulling"   // an image is on its way
)

// Words of the fact Short: why IPAM has no address for a new pod.
const (
	ShortNoPool   = "no-pool"       // no pool is for this node
	ShortFull     = "full"          // every address of the pools is given away or reserved
	ShortLimit    = "block-limit"   // the node has as many blocks as one may have
	ShortStrict   = "strict"        // free addresses are in blocks of other nodes, of which none may be borrowed
	ShortNoBlocks = "no-new-blocks" // IPAM is configured to give nodes no more blocks
)

// Words of the fact Skips: why the DaemonSet of calico-node has no pod on the node.
const (
	SkipsSelector = "selector" // its nodeSelector does not take the node
	SkipsAffinity = "affinity" // its required node affinity does not
	SkipsTaint    = "taint"    // it does not tolerate a taint of the node
	SkipsNoSet    = "no-set"   // there is no DaemonSet of calico-node
	SkipsRefused  = "refused"  // it selects the node, and the API server does not let it make the pod
	SkipsUnsaid   = "unsaid"   // it selects the node, and there is no pod all the same
)

// Words of probe.FactReason in results of ip-registered and calico-pod.
const (
	ReasonOutside   = "outside"    // the registered address is outside the network of the other nodes
	ReasonTaken     = "taken"      // another node has registered the same address
	ReasonShared    = "shared"     // another node that is Ready has the same InternalIP and kubelet's port
	ReasonPeer      = "peer"       // another node's registered address differs from its InternalIP
	ReasonBirdProbe = "bird-probe" // a probe of calico-node wants BIRD, which its backend does not run
	ReasonNoPod     = "no-pod"     // the node has no calico-node pod
)

// Parts of an installation that no check looks at.
const (
	PartEBPF      = "eBPF"
	PartEtcd      = "etcd"
	PartFlannel   = "flannel"
	PartIPAM      = "IPAM"
	PartPlugin    = "CNI plugin"
	PartWindows   = "Windows"
	PartWireGuard = "WireGuard"
)

// Words of NextMakers, beside those of probe.AttrMakers for what is wrong.
const (
	MakersStay = "stay" // those who make the routes now go on
	MakersMove = "move" // others make them, and all are made
)

// Reason is why a probe could not be placed on a node: probe.FactReason of probe-placed.
type Reason string

// All reasons there are.
const (
	ReasonRBAC      Reason = "rbac"      // the API refuses for lack of rights
	ReasonAdmission Reason = "admission" // PodSecurity, a webhook or an SCC refuses the pod, or changes it
	ReasonQuota     Reason = "quota"     // a ResourceQuota or LimitRange refuses the pod
	ReasonNamespace Reason = "namespace" // the namespace is missing or being deleted
	ReasonImage     Reason = "image"     // the image cannot be pulled, or is not the probe's
	ReasonKubelet   Reason = "kubelet"   // the kubelet does not start the pod
	ReasonRejected  Reason = "rejected"  // the kubelet rejects the pod, and says why
	ReasonRuntime   Reason = "runtime"   // the container runtime does not start the container
	ReasonNoCRI     Reason = "no-cri"    // the runtime answers, and the part of it that the kubelet asks is not loaded
	ReasonNoCalico  Reason = "no-calico" // there is no calico-node pod to join
	ReasonSupport   Reason = "support"   // this cluster does not support the access method
	ReasonAttach    Reason = "attach"    // the probe runs and cannot be talked to
	ReasonSilent    Reason = "silent"    // no answer through API server, kubelet and runtime; which one hangs is unknown
	ReasonAPI       Reason = "api"       // the API server fails or cannot be reached
	ReasonUnasked   Reason = "unasked"   // the kubelet answers, and cannot ask the API server who may do what
	ReasonShell     Reason = "shell"     // no program there that can receive the probe and run it
	ReasonLogin     Reason = "login"     // ssh refuses the login, or does not know the node's host key
	ReasonReach     Reason = "reach"     // ssh does not reach the node from here
	ReasonMachine   Reason = "machine"   // another machine answered, or nothing proves that it is the node
	ReasonNoNode    Reason = "no-node"   // the machine that answered is no node of the cluster
)
