// Package facts names what the rules of package diagnose read of results that do not come from
// a node: the IDs of the checks that the Kubernetes API answers, the keys of their facts, and the
// reasons why a probe could not be placed.
//
// The packages that write these values (cluster, injector) need the Kubernetes libraries; the one
// that reads them must not. So the names live here, and this package imports nothing but probe:
//
//	// cluster writes:
//	report(probe.Found(probe.Fail, "lease renewed %s ago", age).With(facts.Age, seconds))
//	// diagnose reads:
//	for _, r := range f.Of(facts.CheckNodeLease) { age, known := r.Facts.Num(facts.Age) ... }
//
// The names of the checks on the node live in probe/checks, beside each check.
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
)

// Facts of these checks.
const (
	Age            probe.Fact = "age_s"           // seconds
	APIReason      probe.Fact = "api_reason"      // the API's own word: KubeletNotReady, CrashLoopBackOff, Init:0/3
	Budget         probe.Fact = "budget_s"        // seconds from a container's start to its kill without a good answer
	BudgetProbe    probe.Fact = "probe"           // which Kubernetes probe sets that budget: liveness or startup
	Container      probe.Fact = "container"       // container name
	ControlPlane   probe.Fact = "server"          // whether the node is of the control plane, by its labels
	DatastoreReady probe.Fact = "datastore_ready" // ClusterInformation's switch of that name
	ExitCode       probe.Fact = "exit_code"       // of the last termination
	Image          probe.Fact = "image"           // image of the calico-node container
	Internal       probe.Fact = "internal_ip"     // the Node's InternalIP of that family
	Kubelet        probe.Fact = "kubelet"         // its version, which names k3s, RKE2 and k0s
	KubeProxy      probe.Fact = "kube_proxy"      // list of the running kube-proxy pods on the node, by name
	LastEnd        probe.Fact = "last_end"        // how the last run of a container ended: OOMKilled, Error
	Lived          probe.Fact = "lived_s"         // seconds the last run of a container lived
	Message        probe.Fact = "message"         // the kubelet's words about a container
	NotStarted     probe.Fact = "not_started"     // whether a container's program could not be started at all
	Memory         probe.Fact = "memory"          // bytes a container killed for memory may use, 0 = no limit
	Operator       probe.Fact = "operator"        // whether the Tigera operator made the calico-node pod
	Over           probe.Fact = "over"            // whether the present run has been ready for a while
	Owner          probe.Fact = "owner"           // name of the DaemonSet that controls a pod
	Period         probe.Fact = "period_s"        // seconds between two attempts of the probe that sets the budget
	Phase          probe.Fact = "phase"           // pod phase
	Pod            probe.Fact = "pod"             // namespace/name
	Registered     probe.Fact = "registered"      // address Calico registered, without its prefix length
	Restarts       probe.Fact = "restarts"        // count
	Runtime        probe.Fact = "runtime"         // kind of container runtime: containerd, cri-o, docker
	Taints         probe.Fact = "taints"          // list of key=value:effect
	Unready        probe.Fact = "unready"         // what the kubelet says is not ready: list of Unready words
)

// Words of the fact Unready.
const (
	UnreadyRuntime = "runtime" // the container runtime does not answer the kubelet
	UnreadyPLEG    = "pleg"    // the runtime no longer tells the kubelet which containers changed
	UnreadyNetwork = "network" // the runtime has no usable network configuration
)

// Words of probe.FactReason in results of ip-registered and calico-pod.
const (
	ReasonOutside   = "outside"    // the registered address is outside the network of the other nodes
	ReasonTaken     = "taken"      // another node has registered the same address
	ReasonPeer      = "peer"       // another node's registered address differs from its InternalIP
	ReasonBirdProbe = "bird-probe" // a probe of calico-node wants BIRD, which its backend does not run
	ReasonNoPod     = "no-pod"     // the node has no calico-node pod
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
	ReasonNoCalico  Reason = "no-calico" // there is no calico-node pod to join
	ReasonSupport   Reason = "support"   // this cluster does not support the access method
	ReasonAttach    Reason = "attach"    // the probe runs and cannot be talked to
	ReasonSilent    Reason = "silent"    // no answer through API server, kubelet and runtime; which one hangs is unknown
	ReasonAPI       Reason = "api"       // the API server fails or cannot be reached
	ReasonShell     Reason = "shell"     // no program there that can receive the probe and run it
	ReasonLogin     Reason = "login"     // ssh refuses the login, or does not know the node's host key
	ReasonReach     Reason = "reach"     // ssh does not reach the node from here
	ReasonMachine   Reason = "machine"   // another machine answered, or nothing proves that it is the node
	ReasonNoNode    Reason = "no-node"   // the machine that answered is no node of the cluster
)
