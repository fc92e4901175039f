// Package facts defines the names that causes in internal/subject use to read results that do not come from a node.
// They are the IDs of the checks of the Kubernetes API, the keys of their facts, and the reasons why a probe could not
// be placed.
//
// The packages that write these values (cluster, injector) need the Kubernetes libraries. The package that reads them
// must not depend on these libraries. The names are therefore defined here, and this package imports only probe:
//
//	// cluster writes:
//	report(probe.Found(probe.Fail, "lease renewed %s ago", age).With(facts.Age, seconds))
//	// a cause reads:
//	for _, r := range f.Of(facts.CheckNodeLease) { age, known := r.Facts.Num(facts.Age) ... }
//
// The names of the checks on the node are in internal/subject, beside each check.
package facts

import "github.com/calico-probe/calico-probe/probe"

// IDs of the checks that query the API.
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

// Facts that these checks report.
const (
	Account           probe.Fact = "account"         // the account whose rights were checked: NAMESPACE:NAME
	AccountOf         probe.Fact = "account_of"      // which account it is: one of the Account words
	AccountUID        probe.Fact = "account_uid"     // the account's UID in the API, which its tokens contain
	Age               probe.Fact = "age_s"           // in seconds
	Addresses         probe.Fact = "addresses"       // some endpoints whose address no pod has
	AddressesOfPod    probe.Fact = "family"          // IP family of the addresses that pods do not get: 4 or 6
	Answered          probe.Fact = "answered"        // true if a connection opened but the answer was unexpected
	APIOutside        probe.Fact = "api_outside"     // true if no API server has the address of a node or pod
	APIReason         probe.Fact = "api_reason"      // the API's own term: KubeletNotReady, CrashLoopBackOff, Init:0/3
	Budget            probe.Fact = "budget_s"        // seconds from a container's start until a failing probe kills it
	Blocks            probe.Fact = "blocks"          // number of blocks of pod addresses that belong to the node
	BlockLimit        probe.Fact = "block_limit"     // maximum number of blocks that one node may have
	Borrowed          probe.Fact = "borrowed"        // number of the node's addresses that pods on other nodes use
	BudgetProbe       probe.Fact = "probe"           // the Kubernetes probe that sets that budget: liveness or startup
	Container         probe.Fact = "container"       // container name
	ControlPlane      probe.Fact = "server"          // whether the node's labels mark it as a control plane node
	ConfigMap         probe.Fact = "config_map"      // the name of the ConfigMap
	Cordoned          probe.Fact = "cordoned"        // list of pods that wait until the node is uncordoned
	DatastoreReady    probe.Fact = "datastore_ready" // the field of that name in ClusterInformation
	Empty             probe.Fact = "empty"           // why a Service has no ready endpoint: one of the Empty words
	ExitCode          probe.Fact = "exit_code"       // exit code of the last termination
	CPULimit          probe.Fact = "cpu_limit_m"     // CPU that calico-node may use, in thousandths
	FreeBlocks        probe.Fact = "free_blocks"     // number of unclaimed blocks in the pools that the node may use
	FreeElsewhere     probe.Fact = "free_elsewhere"  // free addresses in other nodes' blocks, in the same pools
	FreeHere          probe.Fact = "free_here"       // number of free addresses in the node's own blocks
	Full              probe.Fact = "full"            // whether the node has its maximum number of pods
	RenamedTo         probe.Fact = "renamed_to"      // the name of the Node to which the machine now reports
	Group             probe.Fact = "group"           // the API group in which Calico keeps its resources
	HostEndpoint      probe.Fact = "host_endpoint"   // a HostEndpoint's name
	Reflectors        probe.Fact = "reflectors"      // list of nodes whose annotation makes them route reflectors
	IdlePeers         probe.Fact = "idle_peers"      // list of BGPPeers without a session on any node, with the reason
	Image             probe.Fact = "image"           // image of the calico-node container
	Internal          probe.Fact = "internal_ip"     // the Node's InternalIP in that family
	Kubelet           probe.Fact = "kubelet"         // the kubelet's version, which also names k3s, RKE2 or k0s
	KubeletStarts     probe.Fact = "kubelet_starts"  // number of recent kubelet starts
	KubeProxy         probe.Fact = "kube_proxy"      // list of the kube-proxy pods that run on the node, by name
	Lacks             probe.Fact = "lacks"           // list of rights, as VERB RESOURCE, or of kinds
	OfPlugin          probe.Fact = "of_plugin"       // true if it concerns the CNI plugin's account
	LacksRight        probe.Fact = "lacks_right"     // the right that the API server denies to the user, as a sentence
	LacksUser         probe.Fact = "lacks_user"      // the API user to whom the API server denies a right
	LastEnd           probe.Fact = "last_end"        // how the previous container ended: OOMKilled, Error
	Later             probe.Fact = "later"           // whether it takes effect only at the next start
	Leaked            probe.Fact = "leaked"          // number of addresses that IPAM keeps for deleted pods
	Lived             probe.Fact = "lived_s"         // how long the previous container ran, in seconds
	MeshOff           probe.Fact = "mesh_off"        // whether nodeToNodeMeshEnabled is false
	Message           probe.Fact = "message"         // the kubelet's message about a container
	Makers            probe.Fact = "makers"          // the problem with the component that creates routes: both, or none
	NextMakers        probe.Fact = "next_makers"     // the same problem from Calico v3.33 on: both, none, stay or move
	Migration         probe.Fact = "migration"       // a DatastoreMigration and its phase
	NoToken           probe.Fact = "no_token"        // true if calico-node's containers lack a token for their account
	NotStarted        probe.Fact = "not_started"     // whether a container's program failed to start
	Memory            probe.Fact = "memory"          // memory limit of an OOM-killed container in bytes, 0 = no limit
	OnDevice          probe.Fact = "on_device"       // the interface that a HostEndpoint names, "" = it names addresses
	OnAddress         probe.Fact = "on_address"      // whether a HostEndpoint certainly covers the node's InternalIP
	NotLooked         probe.Fact = "not_looked"      // list of the parts of an installation that no check covers
	Operator          probe.Fact = "operator"        // whether the Tigera operator created the calico-node pod
	Over              probe.Fact = "over"            // whether the current container has been ready for a while
	OtherPools        probe.Fact = "other_pools"     // the node's pools of the other family, if one family has none
	UnfitPools        probe.Fact = "unfit_pools"     // list of the pools that exclude the node's pods, with the reason
	Owner             probe.Fact = "owner"           // name of the DaemonSet that controls a pod
	Period            probe.Fact = "period_s"        // seconds between two attempts of the probe that sets the budget
	Phase             probe.Fact = "phase"           // pod phase
	Pod               probe.Fact = "pod"             // namespace/name
	Plugin            probe.Fact = "plugin"          // the CNI plugin that fails, "" if the message names none
	DNSPort           probe.Fact = "dns_port"        // the port of the cluster DNS pods
	DNSNamespace      probe.Fact = "dns_namespace"   // namespace of the cluster DNS pods
	DNSKept           probe.Fact = "dns_kept"        // why DNS fails: unlisted, denied, missed, shut, nowhere, noegress
	BySet             probe.Fact = "by_set"          // the network set that a policy denies, and its network
	DNSClosed         probe.Fact = "dns_closed"      // true if no policy allows queries to them
	NamedPods         probe.Fact = "named_pods"      // list of some of the affected pods, NAMESPACE/NAME
	Pods              probe.Fact = "pods"            // number of pods that do not start for the same reason
	Corroborated      probe.Fact = "corroborated"    // true if the evidence does not depend on a single tenant
	OfDNS             probe.Fact = "of_dns"          // whether the Service is the cluster DNS Service
	Pools             probe.Fact = "pools"           // list of the IP pools that may give the node's pods addresses
	Registered        probe.Fact = "registered"      // the address that Calico registered, without its prefix length
	Restarts          probe.Fact = "restarts"        // number of restarts
	Reserved          probe.Fact = "reserved"        // number of addresses that IPReservations exclude from assignment
	Runtime           probe.Fact = "runtime"         // kind of container runtime: containerd, cri-o, docker
	Service           probe.Fact = "service"         // namespace/name
	Services          probe.Fact = "services"        // some of the affected services
	Slice             probe.Fact = "slice"           // EndpointSlice, namespace/name
	Policy            probe.Fact = "policy"          // a policy, with its kind
	ShutBy            probe.Fact = "shut_by"         // the policy that denies it, "" = none selects the HostEndpoint
	ShutLoopback      probe.Fact = "shut_loopback"   // true if no policy allows traffic from 127.0.0.1
	ShutOut           probe.Fact = "shut_out"        // true if the node itself may send only to failsafe ports
	ShutPorts         probe.Fact = "shut_ports"      // list of the node's TCP ports that no policy allows
	Skips             probe.Fact = "skips"           // why a DaemonSet has no pod on the node: one of the Skips words
	SkippedFor        probe.Fact = "skipped_for"     // the selector or the taint, as a sentence
	SkippedBy         probe.Fact = "skipped_by"      // the missing label KEY=VALUE, or the taint
	Short             probe.Fact = "short"           // why there is no address: one of the Short words
	TakenPorts        probe.Fact = "taken_ports"     // list of the node's ports that a Service uses
	Starts            probe.Fact = "starts"          // what prevents pods from starting: one of the Starts words
	Taints            probe.Fact = "taints"          // list of key=value:effect
	AdvertisedOutside probe.Fact = "told_outside"    // whether BGP may advertise pods to routers that are not nodes
	Unready           probe.Fact = "unready"         // what the kubelet reports as not ready: list of Unready words
	Unprivileged      probe.Fact = "unprivileged"    // true if calico-node is unprivileged and lacks CAP_NET_ADMIN
	Writer            probe.Fact = "writer"          // the component that last wrote a condition of the Node
	Zones             probe.Fact = "zones"           // list of the DNS zones that CoreDNS serves from the API
)

// Values of the fact AccountOf, and of probe.FactReason in results of calico-accounts.
const (
	AccountNode        = "node"        // calico-node's own account
	AccountCNI         = "cni"         // the account whose tokens calico-node creates for the CNI plugin
	AccountControllers = "controllers" // the account of calico-kube-controllers
	AccountGone        = "gone"        // the account does not exist
	AccountRemade      = "remade"      // the account is younger than the pod that has its token
)

// Values of probe.FactReason in results of ip-pools.
const (
	PoolHasNodes    = "nodes"           // the pool contains addresses of nodes
	PoolHasServices = "services"        // the pool contains cluster IPs
	PoolHasAPI      = "api"             // the pool contains the address of an API server that is not a node
	PoolUnexported  = "not-exported"    // BGP does not advertise the pool's blocks
	PoolUnmasked    = "not-masqueraded" // the pool's pods keep their addresses when they send outside the cluster
)

// Targets of service-policies.
const (
	ServicesLocal    = "local"        // services that use only endpoints on the node in question
	ServicesLacking  = "no local pod" // services that use only endpoints on the node, where they have none
	ServicesBySource = "by source"    // services for which a policy allows only certain client pods
)

// NoBGPPeer is a value of probe.FactReason in results of bgp-peering. It means that no peer could
// advertise routes.
const NoBGPPeer = "no-peer"

// BadBGPPeer is another value. It means that the address or selector of a BGPPeer is invalid.
const BadBGPPeer = "bad-peer"

// ControllersNone is a value of probe.FactReason in results of calico-controllers. It means that no controller exists.
const ControllersNone = "none"

// Values of the fact Empty.
const (
	EmptySelector   = "selector"    // no pod matches the Service's selector, but some pods have similar labels
	EmptyAbsent     = "absent"      // no pod matches the Service's selector or has similar labels
	EmptyNoSelector = "no-selector" // the Service has no selector and no ready EndpointSlice
	EmptyScaled     = "scaled"      // its Deployment has 0 replicas
	EmptyNotMade    = "not-made"    // the API server rejects the pods
	EmptyUnready    = "unready"     // its pods are not ready
	EmptyPort       = "port"        // its targetPort is not a port of its pods
	EmptyController = "controller"  // no controller creates its EndpointSlices
	EmptyOtherProxy = "other-proxy" // its label excludes the Service from kube-proxy
	EmptyNoUDP      = "no-udp"      // a DNS Service without port 53/UDP
	EmptyLocal      = "local"       // the Service uses only the node's own endpoints (internalTrafficPolicy)
)

// Values of the fact Unready.
const (
	UnreadyRuntime = "runtime" // the container runtime does not answer the kubelet
	UnreadyPLEG    = "pleg"    // the runtime no longer reports to the kubelet which containers have changed
	UnreadyNetwork = "network" // the runtime has no usable network configuration
)

// Values of the fact Starts: why pods of a node do not start, according to the kubelet.
const (
	StartsAddresses  = "addresses" // IPAM has no address
	StartsCNI        = "cni"       // the CNI plugin fails for another reason
	StartsNetwork    = "network"   // the runtime has no network configuration
	StartsSandbox    = "sandbox"   // the runtime does not create a sandbox, for a reason other than the network
	StartsImage      = "image"     // the node cannot reach the registries
	StartsVolume     = "volume"    // a volume cannot be mounted
	StartsContainer  = "container" // the runtime does not create a container
	StartsUnreported = "unsaid"    // the kubelet does not report a reason
	StartsRefused    = "refused"   // the kubelet's admission rejects them
	StartsOwn        = "own"       // the pod's own fault: an image or a ConfigMap does not exist, or its program exits
	StartsPulling    = "pulling"   // an image is being pulled
)

// Values of the fact Short: why IPAM has no address for a new pod.
const (
	ShortNoPool   = "no-pool"       // no pool applies to this node
	ShortFull     = "full"          // every address of the pools is assigned or reserved
	ShortLimit    = "block-limit"   // the node already has the maximum number of blocks
	ShortStrict   = "strict"        // only other nodes' blocks have free addresses, and borrowing is not allowed
	ShortNoBlocks = "no-new-blocks" // IPAM's configuration does not allow more blocks for nodes
)

// Values of the fact Skips: why the calico-node DaemonSet has no pod on the node.
const (
	SkipsSelector    = "selector" // its nodeSelector does not match the node
	SkipsAffinity    = "affinity" // its required node affinity does not match the node
	SkipsTaint       = "taint"    // it does not tolerate a taint on the node
	SkipsNoSet       = "no-set"   // the calico-node DaemonSet does not exist
	SkipsRefused     = "refused"  // the DaemonSet selects the node, but the API server rejects the pod
	SkipsUnexplained = "unsaid"   // the DaemonSet selects the node, but the pod does not exist
)

// Values of probe.FactReason in results of ip-registered and calico-pod.
const (
	ReasonOutside   = "outside"    // the registered address is outside the network of the other nodes
	ReasonTaken     = "taken"      // another node has registered the same address
	ReasonShared    = "shared"     // another Ready node has the same InternalIP and kubelet port
	ReasonPeer      = "peer"       // another node's registered address differs from its InternalIP
	ReasonBirdProbe = "bird-probe" // a probe of calico-node requires BIRD, but its backend does not run BIRD
	ReasonNoPod     = "no-pod"     // the node has no calico-node pod
)

// Parts of an installation that no check covers.
const (
	PartEBPF      = "eBPF"
	PartEtcd      = "etcd"
	PartFlannel   = "flannel"
	PartIPAM      = "IPAM"
	PartPlugin    = "CNI plugin"
	PartWindows   = "Windows"
	PartWireGuard = "WireGuard"
)

// Values of NextMakers. For problems, NextMakers also uses the values of probe.AttrMakers.
const (
	MakersStay = "stay" // the same component creates the routes
	MakersMove = "move" // another component creates the routes, and it creates all of them
)

// Reason is the reason why a probe could not be placed on a node. It is the value of probe.FactReason in probe-placed.
type Reason string

// All reasons.
const (
	ReasonRBAC         Reason = "rbac"      // the API server rejects the request because rights are missing
	ReasonAdmission    Reason = "admission" // PodSecurity, a webhook or an SCC rejects or changes the pod
	ReasonQuota        Reason = "quota"     // a ResourceQuota or LimitRange rejects the pod
	ReasonNamespace    Reason = "namespace" // the namespace is missing or being deleted
	ReasonImage        Reason = "image"     // the image cannot be pulled, or is not the probe's image
	ReasonKubelet      Reason = "kubelet"   // the kubelet does not start the pod
	ReasonRejected     Reason = "rejected"  // the kubelet rejects the pod and reports why
	ReasonRuntime      Reason = "runtime"   // the container runtime does not start the container
	ReasonNoCRI        Reason = "no-cri"    // the runtime answers, but its CRI plugin is not loaded
	ReasonNoCalico     Reason = "no-calico" // no calico-node pod exists that the probe could join
	ReasonSupport      Reason = "support"   // this cluster does not support the access method
	ReasonAttach       Reason = "attach"    // the probe runs, but the client cannot connect to it
	ReasonSilent       Reason = "silent"    // the API server, the kubelet or the runtime hangs; it is unknown which
	ReasonAPI          Reason = "api"       // the API server fails or is unreachable
	ReasonNoAuthorizer Reason = "unasked"   // the kubelet answers, but cannot reach the API server for authorization
	ReasonShell        Reason = "shell"     // the node has no program that can receive the probe and run it
	ReasonLogin        Reason = "login"     // ssh rejects the login, or does not have the node's host key
	ReasonReach        Reason = "reach"     // ssh cannot reach the node from the client's machine
	ReasonMachine      Reason = "machine"   // another machine answered, or the identity of the machine is not proven
	ReasonNoNode       Reason = "no-node"   // the machine that answered is not a node of the cluster
)
