// Package start declares the checks of calico-node's start, and the facts they report. Both binaries link it. Checks is
// the entry point. The package reads nothing itself: package ask beside it does so on the node, package api reads pods
// and their DaemonSet, and package cause draws the conclusions. Package suite draws the whole flow.
package start

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Checks returns the checks of this subject in display order.
func Checks() []*probe.Check {
	return []*probe.Check{StartupBudget, InitStall}
}

// InitStall examines the processes of calico-node's init containers. In the field, an init container was "Running" for
// half an hour without an event or a log line. Another time, the runtime reported an exited init container as running.
var InitStall = &probe.Check{
	ID:   "init-stall",
	From: probe.FromNode,
	Tags: []string{probe.TagCNI, probe.TagRuntime}, Access: []string{"host processes", "SYS_PTRACE"}, In: probe.Standard,
}

// Facts of init-stall.
const (
	FactProcess probe.Fact = "process_state" // one letter: S sleeps, D is in uninterruptible sleep, T is stopped
	FactWaits   probe.Fact = "waits"         // kernel function in which it waits, "" if not visible
	FactLeads   probe.Fact = "leads"         // the remote ends of its TCP connections, and their states
)

// StartupBudget compares how long calico-node takes to start with the time its liveness probe allows. In the field, two
// kinds of nodes exceeded it: some with a load tens of times higher than other nodes, and one far from the datastore.
// The kubelet killed calico-node a minute after each start, and its log showed nothing.
var StartupBudget = &probe.Check{
	ID: "startup-budget", From: probe.FromNode,
	Tags: []string{probe.TagFelix, probe.TagDatastore}, Access: []string{"host network", "host processes"},
	Limit: 10 * time.Second,
}

// Facts of startup-budget.
const (
	FactStartup probe.Fact = "startup_s" // seconds that start-up took, has taken so far, or would take
	FactBudget  probe.Fact = "budget_s"  // seconds that the liveness probe allows
	FactStretch probe.Fact = "stretch"   // factor by which the load slows work down

	// duration of the shortest TCP handshake with the datastore: the network delay, without server and load delays
	FactFar   probe.Fact = "far_ms"
	FactCalls probe.Fact = "calls"  // number of requests to the datastore in one start
	FactWork  probe.Fact = "work_s" // seconds of CPU work in a start, under this load
	FactOver  probe.Fact = "over"   // whether start-up is complete and Felix runs
)
