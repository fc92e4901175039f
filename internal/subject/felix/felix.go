// Package felix names the checks of Felix: its health endpoints, and the facts they report. Both binaries link it.
package felix

import (
	"github.com/calico-probe/calico-probe/probe"
)

// Checks are the checks of this subject, in the order in which they are shown.
func Checks() []*probe.Check {
	return []*probe.Check{FelixLive, FelixReady}
}

// Facts of the Felix checks.
const FactBad probe.Fact = "bad" // names of the components that are not in order

// FelixLive asks what calico-node's liveness probe asks. A container that fails
// it is killed: in the field, by a start longer than the kill budget, by
// "localhost" pointing to another machine, by a data plane that hangs.
var FelixLive = &probe.Check{
	ID: "felix-live", From: probe.FromNode,
	Tags: []string{probe.TagFelix}, Access: []string{"host network", "etc/hosts"},
}

// FelixReady asks what the readiness probe asks; it differs from liveness while
// the datastore cannot be reached.
var FelixReady = &probe.Check{
	ID: "felix-ready", From: probe.FromNode,
	Tags: []string{probe.TagFelix}, Access: []string{"host network", "etc/hosts"},
}

// FactNextStart is where Felix will answer from its next start on, where calico-node's own probe
// will not ask it.
const FactNextStart probe.Fact = "next_start"
