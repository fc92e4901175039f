// Package start names the checks of the start of calico-node, and the facts they report. Both binaries link it.
package start

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Checks are the checks of this subject, in the order in which they are shown.
func Checks() []*probe.Check {
	return []*probe.Check{StartupBudget, InitStall}
}

// InitStall looks at the processes of calico-node's init containers themselves. In
// the field one had been "Running" for half an hour without an event or a log
// line; on another night the runtime called one running that had long ended.
var InitStall = &probe.Check{
	ID:   "init-stall",
	From: probe.FromNode,
	Tags: []string{probe.TagCNI, probe.TagRuntime}, Access: []string{"host processes", "SYS_PTRACE"}, In: probe.Standard,
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
	ID: "startup-budget", From: probe.FromNode,
	Tags: []string{probe.TagFelix, probe.TagDatastore}, Access: []string{"host network", "host processes"},
	Limit: 10 * time.Second,
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
