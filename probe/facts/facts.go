// Package facts has the names that causes in internal/subject use to read results that do not come from a node: the IDs
// of the checks of the Kubernetes API, the keys of their facts, and the reasons why a probe could not be placed.
//
// The packages that write these values (cluster, injector) need the Kubernetes libraries. The package that reads them
// must not. So the names are here, and this package imports only probe:
//
//	// cluster writes:
//	report(probe.Found(probe.Fail, "lease renewed %s ago", age).With(facts.Age, seconds))
//	// a cause reads:
//	for _, r := range f.Of(facts.CheckNodeLease) { age, known := r.Facts.Num(facts.Age) ... }
//
// The names of the checks on the node live in internal/subject, beside each check.
package facts

import "github.com/calico-probe/calico-probe/probe"

// IDs of the checks that run against the API.
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
	Account           probe.Fact = "account"         // the account whose rights were checked: NAMESPACE:NAME
	AccountOf         probe.Fact = "account_of"      // whose account: one of the Account words
	AccountUID        probe.Fact = "account_uid"     // its UID in the API, which its tokens contain
	Age               probe.Fact = "age_s"           // seconds
	Addresses         probe.Fact = "addresses"       // some endpoints with an address that no pod has
	AddressesOfPod    probe.Fact = "family"          // of the addresses that pods do not get: 4 or 6
	Answered          probe.Fact = "answered"        // true: a connection opened, but the answer was unexpected
	APIOutside        probe.Fact = "api_outside"     // true: no API server has the address of a node or pod
	APIReason         probe.Fact = "api_reason"      // the API's own term: KubeletNotReady, CrashLoopBackOff, Init:0/3
	Budget            probe.Fact = "budget_s"        // seconds from a container's start to its kill without a good answer
	Blocks            probe.Fact = "blocks"          // blocks of pod addresses that belong to the node
	BlockLimit        probe.Fact = "block_limit"     // how many of them one node may have
	Borrowed          probe.Fact = "borrowed"        // addresses of the node's blocks in use by pods elsewhere
	BudgetProbe       probe.Fact = "probe"           // which Kubernetes probe sets that budget: liveness or startup
	Container         probe.Fact = "container"       // container name
	ControlPlane      probe.Fact = "server"          // whether the node is of the control plane, by its labels
	ConfigMap         probe.Fact = "config_map"      // its name
	Cordoned          probe.Fact = "cordoned"        // list of pods that wait for the node to be uncordoned
	DatastoreReady    probe.Fact = "datastore_ready" // ClusterInformation's switch of that name
	Empty             probe.Fact = "empty"           // why a Service has no ready endpoint: one of the Empty words
	ExitCode          probe.Fact = "exit_code"       // of the last termination
	CPULimit          probe.Fact = "cpu_limit_m"     // thousandths of a CPU that calico-node may use
	FreeBlocks        probe.Fact = "free_blocks"     // unclaimed blocks in the pools that the node may use
	FreeElsewhere     probe.Fact = "free_elsewhere"  // free addresses in blocks of other nodes, in the same pools
	FreeHere          probe.Fact = "free_here"       // free addresses in the node's blocks
	Full              probe.Fact = "full"            // whether the node has its maximum number of pods
	RenamedTo         probe.Fact = "renamed_to"      // the name of the Node that the machine now reports to
	Group             probe.Fact = "group"           // the API group in which Calico keeps its resources
	HostEndpoint      probe.Fact = "host_endpoint"   // name of a HostEndpoint
	Reflectors        probe.Fact = "reflectors"      // list of nodes that are route reflectors by their annotation
	IdlePeers         probe.Fact = "idle_peers"      // list of BGPPeers without a session on any node, with the reason
	Image             probe.Fact = "image"           // image of the calico-node container
	Internal          probe.Fact = "internal_ip"     // the Node's InternalIP of that family
	Kubelet           probe.Fact = "kubelet"         // its version, which names k3s, RKE2 and k0s
	KubeletStarts     probe.Fact = "kubelet_starts"  // how often the kubelet has started lately
	KubeProxy         probe.Fact = "kube_proxy"      // list of the running kube-proxy pods on the node, by name
	Lacks             probe.Fact = "lacks"           // list of rights, VERB RESOURCE, or of kinds
	OfPlugin          probe.Fact = "of_plugin"       // true: of the CNI plugin's account
	LacksRight        probe.Fact = "lacks_right"     // the right that the API server denies the user, as a sentence
	LacksUser         probe.Fact = "lacks_user"      // the API user whom the API server denies a right
	LastEnd           probe.Fact = "last_end"        // how the previous container ended: OOMKilled, Error
	Later             probe.Fact = "later"           // whether it takes effect only at the next start
	Leaked            probe.Fact = "leaked"          // addresses that IPAM keeps for deleted pods
	Lived             probe.Fact = "lived_s"         // runtime of the previous container in seconds
	MeshOff           probe.Fact = "mesh_off"        // whether nodeToNodeMeshEnabled is false
	Message           probe.Fact = "message"         // the kubelet's message about a container
	Makers            probe.Fact = "makers"          // the problem with the component that creates routes: both, or none
	NextMakers        probe.Fact = "next_makers"     // the same from Calico v3.33 on: both, none, stay or move
	Migration         probe.Fact = "migration"       // a DatastoreMigration and its phase
	NoToken           probe.Fact = "no_token"        // true: calico-node's containers get no token of their account
	NotStarted        probe.Fact = "not_started"     // whether a container's program could not be started
	Memory            probe.Fact = "memory"          // memory limit in bytes of an OOM-killed container, 0 = no limit
	OnDevice          probe.Fact = "on_device"       // the interface a HostEndpoint names, "" = it names addresses
	OnAddress         probe.Fact = "on_address"      // whether a HostEndpoint certainly covers the node's InternalIP
	NotLooked         probe.Fact = "not_looked"      // list of the parts of an installation that no check covers
	Operator          probe.Fact = "operator"        // whether the Tigera operator created the calico-node pod
	Over              probe.Fact = "over"            // whether the present container has been ready for a while
	OtherPools        probe.Fact = "other_pools"     // list of the node's pools of the other family, if one has none
	UnfitPools        probe.Fact = "unfit_pools"     // list of the pools that exclude the node's pods, with the reason
	Owner             probe.Fact = "owner"           // name of the DaemonSet that controls a pod
	Period            probe.Fact = "period_s"        // seconds between two attempts of the probe that sets the budget
	Phase             probe.Fact = "phase"           // pod phase
	Pod               probe.Fact = "pod"             // namespace/name
	Plugin            probe.Fact = "plugin"          // the CNI plugin that refuses, "" if the message names none
	DNSPort           probe.Fact = "dns_port"        // the port of the cluster DNS pods
	DNSNamespace      probe.Fact = "dns_namespace"   // namespace of the cluster DNS pods
	DNSKept           probe.Fact = "dns_kept"        // how: unlisted, denied, missed, shut, nowhere, noegress
	BySet             probe.Fact = "by_set"          // the network set that a policy denies, with its network
	DNSClosed         probe.Fact = "dns_closed"      // true: no policy allows queries to them
	NamedPods         probe.Fact = "named_pods"      // list of some of the affected pods, NAMESPACE/NAME
	Pods              probe.Fact = "pods"            // count of pods that do not start for the same reason
	Corroborated      probe.Fact = "corroborated"    // true: the evidence does not depend on one tenant alone
	OfDNS             probe.Fact = "of_dns"          // whether the Service is the cluster DNS Service
	Pools             probe.Fact = "pools"           // list of the IP pools that may give addresses to the node's pods
	Registered        probe.Fact = "registered"      // address Calico registered, without its prefix length
	Restarts          probe.Fact = "restarts"        // count
	Reserved          probe.Fact = "reserved"        // addresses that IPReservations exclude from assignment
	Runtime           probe.Fact = "runtime"         // kind of container runtime: containerd, cri-o, docker
	Service           probe.Fact = "service"         // namespace/name
	Services          probe.Fact = "services"        // some of the affected services
	Slice             probe.Fact = "slice"           // EndpointSlice, namespace/name
	Policy            probe.Fact = "policy"          // a policy, with its kind
	ShutBy            probe.Fact = "shut_by"         // the policy that denies, "" = none selects the HostEndpoint
	ShutLoopback      probe.Fact = "shut_loopback"   // true: no policy allows traffic from 127.0.0.1
	ShutOut           probe.Fact = "shut_out"        // true: the node itself may only send to failsafe ports
	ShutPorts         probe.Fact = "shut_ports"      // list of the node's TCP ports that no policy allows
	Skips             probe.Fact = "skips"           // why a DaemonSet creates no pod for the node: one of the Skips words
	SkippedFor        probe.Fact = "skipped_for"     // the selector or the taint, as a sentence
	SkippedBy         probe.Fact = "skipped_by"      // the label KEY=VALUE that is missing, or the taint
	Short             probe.Fact = "short"           // why there is no address: one of the Short words
	TakenPorts        probe.Fact = "taken_ports"     // list of the node's ports that a Service uses
	Starts            probe.Fact = "starts"          // what keeps pods from starting: one of the Starts words
	Taints            probe.Fact = "taints"          // list of key=value:effect
	AdvertisedOutside probe.Fact = "told_outside"    // whether BGP may advertise pods to routers that are not nodes
	Unready           probe.Fact = "unready"         // which part the kubelet reports as not ready: list of Unready words
	Unprivileged      probe.Fact = "unprivileged"    // true: calico-node is unprivileged and lacks CAP_NET_ADMIN
	Writer            probe.Fact = "writer"          // who wrote a condition of the Node last, by its own name
	Zones             probe.Fact = "zones"           // list of the DNS zones that CoreDNS serves from the API
)

// Values of the fact AccountOf, and of probe.FactReason in results of calico-accounts.
const (
	AccountNode        = "node"        // calico-node's own
	AccountCNI         = "cni"         // the one whose tokens calico-node creates for the CNI plugin
	AccountControllers = "controllers" // that of calico-kube-controllers
	AccountGone        = "gone"        // the account does not exist
	AccountRemade      = "remade"      // it is younger than the pod that has its token
)

// Values of probe.FactReason in results of ip-pools.
const (
	PoolHasNodes    = "nodes"           // it contains addresses of nodes
	PoolHasServices = "services"        // it contains cluster IPs
	PoolHasAPI      = "api"             // it contains the address of an API server that is not a node
	PoolUnexported  = "not-exported"    // BGP does not advertise its blocks
	PoolUnmasked    = "not-masqueraded" // its pods keep their addresses outside
)

// Targets of service-policies.
const (
	ServicesLocal    = "local"     // those that use only endpoints of the node in question
	ServicesBySource = "by source" // those whose pods a policy restricts to certain client pods
)

// NoBGPPeer is a value of probe.FactReason in results of bgp-peering: there is no peer that could advertise routes.
const NoBGPPeer = "no-peer"

// BadBGPPeer is another value: the address or selector of a BGPPeer is invalid.
const BadBGPPeer = "bad-peer"

// ControllersNone is a value of probe.FactReason in results of calico-controllers: no controller exists.
const ControllersNone = "none"

// Values of the fact Empty.
const (
	EmptySelector   = "selector"    // no pod matches its selector, but some pods have similar labels
	EmptyAbsent     = "absent"      // no pod matches its selector or has similar labels
	EmptyNoSelector = "no-selector" // it has no selector, and there is no ready EndpointSlice
	EmptyScaled     = "scaled"      // its Deployment has 0 replicas
	EmptyNotMade    = "not-made"    // the API server rejects the pods
	EmptyUnready    = "unready"     // its pods are not ready
	EmptyPort       = "port"        // its targetPort is not a port of its pods
	EmptyController = "controller"  // no controller creates its EndpointSlices
	EmptyOtherProxy = "other-proxy" // its label excludes it from kube-proxy
	EmptyNoUDP      = "no-udp"      // a DNS Service without port 53 UDP
	EmptyLocal      = "local"       // the node has no endpoint, and uses only its own (internalTrafficPolicy)
)

// Values of the fact Unready.
const (
	UnreadyRuntime = "runtime" // the container runtime does not answer the kubelet
	UnreadyPLEG    = "pleg"    // the runtime no longer reports to the kubelet which containers changed
	UnreadyNetwork = "network" // the runtime has no usable network configuration
)

// Values of the fact Starts: why pods of a node do not start, according to the kubelet.
const (
	StartsAddresses  = "addresses" // IPAM has no address
	StartsCNI        = "cni"       // the CNI plugin fails for another reason
	StartsNetwork    = "network"   // the runtime has no network configuration
	StartsSandbox    = "sandbox"   // the runtime creates no sandbox, for another reason than the network
	StartsImage      = "image"     // registries are unreachable from the node
	StartsVolume     = "volume"    // a volume cannot be mounted
	StartsContainer  = "container" // the runtime creates no container
	StartsUnreported = "unsaid"    // the kubelet reports nothing
	StartsRefused    = "refused"   // the kubelet's admission rejects them
	StartsOwn        = "own"       // the pod's own fault: no such image, no such ConfigMap, its program exits
	StartsPulling    = "pulling"   // an image is being pulled
)

// Values of the fact Short: why IPAM has no address for a new pod.
const (
	ShortNoPool   = "no-pool"       // no pool applies to this node
	ShortFull     = "full"          // every address of the pools is assigned or reserved
	ShortLimit    = "block-limit"   // the node has the maximum number of blocks
	ShortStrict   = "strict"        // free addresses are only in blocks of other nodes, and borrowing is not allowed
	ShortNoBlocks = "no-new-blocks" // IPAM is configured to give nodes no more blocks
)

// Values of the fact Skips: why the DaemonSet of calico-node has no pod on the node.
const (
	SkipsSelector    = "selector" // its nodeSelector does not match the node
	SkipsAffinity    = "affinity" // its required node affinity does not match the node
	SkipsTaint       = "taint"    // it does not tolerate a taint of the node
	SkipsNoSet       = "no-set"   // the DaemonSet of calico-node does not exist
	SkipsRefused     = "refused"  // it selects the node, but the API server rejects the pod
	SkipsUnexplained = "unsaid"   // it selects the node, but there is no pod
)

// Values of probe.FactReason in results of ip-registered and calico-pod.
const (
	ReasonOutside   = "outside"    // the registered address is outside the network of the other nodes
	ReasonTaken     = "taken"      // another node has registered the same address
	ReasonShared    = "shared"     // another Ready node has the same InternalIP and kubelet port
	ReasonPeer      = "peer"       // another node's registered address differs from its InternalIP
	ReasonBirdProbe = "bird-probe" // a probe of calico-node requires BIRD, which its backend does not run
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

// Values of NextMakers, beside those of probe.AttrMakers for problems.
const (
	MakersStay = "stay" // the same component creates the routes
	MakersMove = "move" // another component creates them, and creates all of them
)

// Reason is why a probe could not be placed on a node. It is the value of probe.FactReason in probe-placed.
type Reason string

// All reasons.
const (
	ReasonRBAC         Reason = "rbac"      // the API refuses: rights are missing
	ReasonAdmission    Reason = "admission" // PodSecurity, a webhook or an SCC rejects or changes the pod
	ReasonQuota        Reason = "quota"     // a ResourceQuota or LimitRange rejects the pod
	ReasonNamespace    Reason = "namespace" // the namespace is missing or being deleted
	ReasonImage        Reason = "image"     // the image cannot be pulled, or is not the probe's
	ReasonKubelet      Reason = "kubelet"   // the kubelet does not start the pod
	ReasonRejected     Reason = "rejected"  // the kubelet rejects the pod and reports why
	ReasonRuntime      Reason = "runtime"   // the container runtime does not start the container
	ReasonNoCRI        Reason = "no-cri"    // the runtime answers, but its CRI part is not loaded
	ReasonNoCalico     Reason = "no-calico" // there is no calico-node pod to join
	ReasonSupport      Reason = "support"   // this cluster does not support the access method
	ReasonAttach       Reason = "attach"    // the probe runs, but no connection to it opens
	ReasonSilent       Reason = "silent"    // no answer through API server, kubelet and runtime; unknown which one hangs
	ReasonAPI          Reason = "api"       // the API server fails or is unreachable
	ReasonNoAuthorizer Reason = "unasked"   // the kubelet answers, but cannot reach the API server for authorization
	ReasonShell        Reason = "shell"     // no program there that can receive the probe and run it
	ReasonLogin        Reason = "login"     // ssh rejects the login, or does not have the node's host key
	ReasonReach        Reason = "reach"     // ssh cannot reach the node from here
	ReasonMachine      Reason = "machine"   // another machine answered, or its identity is unproven
	ReasonNoNode       Reason = "no-node"   // the machine that answered is not a node of the cluster
)
