package facts

import "github.com/calico-probe/calico-probe/probe"

// IDs of the checks that the API answers about what keeps a node or calico-node from starting.
const (
	CheckWebhooks       = "webhooks-answer"
	CheckTyphaService   = "typha-service"
	CheckTunnelSettings = "tunnel-settings"
)

// Facts of these checks, and of calico-pod and node-taints.
const (
	BrokenProbe  probe.Fact = "broken_probe"  // which probe or hook cannot succeed: one of the Probe words
	KeepsFrom    probe.Fact = "keeps_from"    // list of what a webhook keeps from being written: words below
	Differs      probe.Fact = "differs"       // list of settings of the node that are not those of the others
	Elsewhere    probe.Fact = "elsewhere"     // list of the other nodes for which a setting is another
	Limit        probe.Fact = "limit"         // which limit of processes or files a message names: one of the Limit words
	ProbeSays    probe.Fact = "probe_says"    // why the kubelet's probe of a container failed last
	NotReady     probe.Fact = "not_ready_s"   // for how long calico-node's container has not been ready, in seconds
	Unstarted    probe.Fact = "uninitialized" // list of the taints that a controller has yet to take away
	WithoutAgent probe.Fact = "without_agent" // list of those of them whose agent has no pod on the node
	WaitingFor   probe.Fact = "waiting_for"   // list of the pods that wait because of such a taint
	Webhook      probe.Fact = "webhook"       // its name
	WebhookOf    probe.Fact = "webhook_of"    // the configuration that has it, KIND/NAME
)

// Words of what a webhook keeps from being written.
const (
	KeepsLeases = "leases" // of nodes
	KeepsStatus = "nodes/status"
	KeepsNodes  = "nodes"
	KeepsPods   = "pods"          // in the namespace of calico-node
	KeepsOthers = "workload pods" // in namespace default
	KeepsCalico = "calico"        // Calico's own resources
)

// Words of the fact BrokenProbe.
const (
	ProbeLiveness  = "liveness"
	ProbeReadiness = "readiness"
	ProbeStartup   = "startup"
	ProbePostStart = "postStart"
)

// Words of the fact Limit.
const (
	LimitProcesses = "processes"
	LimitFiles     = "open files"
	LimitMemory    = "memory"
)

// SkipsUnscheduled is a word of the fact Skips: the pod is made for the node, and no scheduler binds it.
const SkipsUnscheduled = "unscheduled"

// Reasons in results of typha-service.
const (
	TyphaNoService = "no-service" // there is no such Service
	TyphaNoPods    = "no-pods"    // it has no ready endpoint
	TyphaNoPort    = "no-port"    // it has no port of the name by which Felix looks for it
)
