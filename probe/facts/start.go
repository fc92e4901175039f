package facts

import "github.com/calico-probe/calico-probe/probe"

// IDs of API checks about what prevents a node or calico-node from starting.
const (
	CheckWebhooks       = "webhooks-answer"
	CheckPodsCreated    = "pods-created"
	CheckTyphaService   = "typha-service"
	CheckTunnelSettings = "tunnel-settings"
)

// Facts of these checks, and of calico-pod and node-taints.
const (
	BrokenProbe  probe.Fact = "broken_probe"  // the probe or hook that cannot succeed: one of the Probe words
	KeepsFrom    probe.Fact = "keeps_from"    // list of the objects that a webhook blocks: one or more Keeps words
	Differs      probe.Fact = "differs"       // list of settings that differ from those of other nodes
	Elsewhere    probe.Fact = "elsewhere"     // list of the other nodes that have a different setting
	Limit        probe.Fact = "limit"         // the limit on processes or files in a message: one of the Limit words
	ProbeSays    probe.Fact = "probe_says"    // the most recent failure of the kubelet's probe of a container
	NotReady     probe.Fact = "not_ready_s"   // how long calico-node's container has been unready, in seconds
	Unstarted    probe.Fact = "uninitialized" // list of the taints that a controller has yet to remove
	WithoutAgent probe.Fact = "without_agent" // list of taints whose agent has no pod on the node
	WaitingFor   probe.Fact = "waiting_for"   // list of the pods that are waiting because of such a taint
	Webhook      probe.Fact = "webhook"       // its name
	WebhookOf    probe.Fact = "webhook_of"    // its configuration, KIND/NAME
	RefusedBy    probe.Fact = "refused_by"    // what rejects a workload's pods: one of the Refuser words
	Refuser      probe.Fact = "refuser"       // its name
	OfSystem     probe.Fact = "of_system"     // true if the workload is in a namespace of Kubernetes or Calico
)

// Values of the fact RefusedBy.
const (
	RefuserQuota    = "quota"
	RefuserLimits   = "limit-range"
	RefuserSecurity = "pod-security"
	RefuserPolicy   = "policy"  // a ValidatingAdmissionPolicy
	RefuserWebhook  = "webhook" // the API server's own decision
	RefuserDead     = "dead-webhook"
	RefuserAccount  = "account"  // the service account is missing
	RefuserPriority = "priority" // the PriorityClass is missing
	RefuserOther    = "other"
)

// Values of the fact KeepsFrom.
const (
	KeepsLeases = "leases" // of nodes
	KeepsStatus = "nodes/status"
	KeepsNodes  = "nodes"
	KeepsPods   = "pods"          // in the namespace of calico-node
	KeepsOthers = "workload pods" // in namespace default
	KeepsCalico = "calico"        // Calico's own resources
)

// Values of the fact BrokenProbe.
const (
	ProbeLiveness  = "liveness"
	ProbeReadiness = "readiness"
	ProbeStartup   = "startup"
	ProbePostStart = "postStart"
)

// Values of the fact Limit.
const (
	LimitProcesses = "processes"
	LimitFiles     = "open files"
	LimitMemory    = "memory"
)

// SkipsUnscheduled is a value of the fact Skips. It means that the pod for the node exists, but no scheduler binds it.
const SkipsUnscheduled = "unscheduled"

// Values of probe.FactReason in results of typha-service.
const (
	TyphaNoService = "no-service" // the Service does not exist
	TyphaNoPods    = "no-pods"    // the Service has no ready endpoint
	TyphaNoPort    = "no-port"    // the Service has no port with the name that Felix looks for
)
