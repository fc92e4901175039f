// Package felix declares the checks of Felix's health endpoints, and the facts they report. Both binaries link it.
// Checks is the entry point. The package connects to nothing itself: package ask beside it does so on the node, and
// package cause draws the conclusions. Package suite draws the whole flow.
package felix

import (
	"github.com/calico-probe/calico-probe/probe"
)

// Checks returns the checks of this subject in display order.
func Checks() []*probe.Check {
	return []*probe.Check{FelixLive, FelixReady}
}

// FactBad lists the components that Felix reports as not live or not ready.
const FactBad probe.Fact = "bad"

// FelixLive sends the request of calico-node's liveness probe. The kubelet kills a container that fails this probe. In
// the field, three faults caused that: a start longer than the probe's budget, a "localhost" that resolved to another
// machine, and a data plane that hung.
var FelixLive = &probe.Check{
	ID: "felix-live", From: probe.FromNode,
	Tags: []string{probe.TagFelix}, Access: []string{"host network", "etc/hosts"},
}

// FelixReady sends the request of the readiness probe. Its answer differs from liveness while the datastore is
// unreachable.
var FelixReady = &probe.Check{
	ID: "felix-ready", From: probe.FromNode,
	Tags: []string{probe.TagFelix}, Access: []string{"host network", "etc/hosts"},
}

// FactNextStart is the address on which Felix will listen after its next start, if calico-node's liveness probe does
// not query that address.
const FactNextStart probe.Fact = "next_start"
