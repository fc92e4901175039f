// Package start names the checks of the start of calico-node, and the facts they report. Both binaries link it.
package start

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// InitStall looks at the processes of calico-node's init containers themselves. In
// the field one had been "Running" for half an hour without an event or a log
// line; on another night the runtime called one running that had long ended.
var InitStall = &probe.Check{
	ID: "init-stall", Asks: "is an init container of calico-node still running, and what is it doing?",
	From: probe.FromNode,
	Tags: []string{probe.TagCNI, probe.TagRuntime}, Access: []string{"host processes", "SYS_PTRACE"}, In: probe.Standard,
	Doc: `The programs of the init containers (calico-ipam -upgrade, install, calico-node -init) are looked for among the node's processes.
ok: none is running. info: one is, for less than two minutes. fail: one has been running for longer, so it hangs: the evidence has its state, what it waits for in the kernel, its open files and where its connections lead, as far as this access method shows them. One that waits for the API server shows a connection in the state syn-sent, or none. ipam-files and datastore-latency hold the known reasons.
When the API says that an init container is running (calico-pod) and this check finds no such process, the container runtime's state is stale: look at containerd-health and docker-health.
skip: the node's processes are not visible by this access method.`,
}

// Facts of init-stall.
const (
	FactProcess probe.Fact = "process_state" // one letter: S sleeps, D waits for a device, T is stopped
	FactWaits   probe.Fact = "waits"         // kernel function it waits in, "" when not visible
	FactLeads   probe.Fact = "leads"         // where its TCP connections lead, and their states
)

// StartupBudget holds what a start of calico-node takes against what its probe
// allows. In the field that was lost twice: on nodes with a load of tens of times
// their peers', and on a node far from the datastore. Both were killed a minute
// after each start, without a word in the log.
var StartupBudget = &probe.Check{
	ID: "startup-budget", Asks: "does calico-node start in the time its probe allows?", From: probe.FromNode,
	Tags: []string{probe.TagFelix, probe.TagDatastore}, Access: []string{"host network", "host processes"},
	Limit: 10 * time.Second,
	Doc: `Felix opens its health port when start-up is over: a chain of some twenty calls to the datastore, one after the other. A container whose liveness or startup probe fails for its whole budget before that is killed and begins again.
measured: how long start-up took until Felix started, by the ages of the processes in the container; or how long one that is still running has taken so far.
estimate: twenty calls at the distance measured just now, and what start-up works by itself, stretched by the load on the CPUs.
ok: less than half of the budget. info: the last start took more than half. warn: one that is at work has, or the estimate is; or the last start took longer than the budget and was spared; or the estimate is beyond the budget, and Felix runs, or whether it does is not seen. fail: a start that is at work has used up its budget; or the estimate is beyond it and no Felix is among the node's processes, so calico-node will be killed again and again. A longer initialDelaySeconds or failureThreshold, or a startup probe, gives it the time.
skip: calico-node has no such probe; or its processes are not visible.`,
}

// Facts of startup-budget.
const (
	FactStartup probe.Fact = "startup_s" // seconds start-up took, has taken, or would take
	FactBudget  probe.Fact = "budget_s"  // seconds its probe allows
	FactStretch probe.Fact = "stretch"   // by how much the load makes work last longer

	// the shortest handshake of TCP with it: the way alone, without what a server or a load makes of it
	FactFar   probe.Fact = "far_ms"
	FactCalls probe.Fact = "calls"  // to the datastore in one start
	FactWork  probe.Fact = "work_s" // seconds a start computes besides, under this load
	FactOver  probe.Fact = "over"   // whether start-up has ended and Felix was started
)
