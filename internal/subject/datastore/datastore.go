// Package datastore declares the checks of the datastore and the facts they report: the API server or etcd, and Typha.
// Both binaries link it. Checks is the entry point. The package connects to nothing itself: package ask beside it does
// so on the node, package api reads the API, and package cause draws the conclusions. Package suite draws the whole
// flow.
package datastore

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Checks returns the checks of this subject in display order.
func Checks() []*probe.Check {
	return []*probe.Check{DatastoreLatency, TyphaReach}
}

// DatastoreLatency measures the round trip from this node to Calico's datastore. In the field, the kubelet killed
// calico-node on a distant node a minute after each start. The start-up needed more round trips than fit into the
// liveness probe's budget (see startup-budget).
var DatastoreLatency = &probe.Check{
	ID: "datastore-latency", From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagDatastore}, Access: []string{"host network", "etc/cni"},
	Needs: []string{probe.CheckNodeUplink}, Limit: 10 * time.Second,
}

// Facts of datastore-latency.
const (
	FactAnswer probe.Fact = "answer_ms" // milliseconds from the request to the first byte, median

	FactSetBy probe.Fact = "set_by" // the setting that configures this API server for calico-node
	FactSlice probe.Fact = "slice"  // EndpointSlice with an address of an API server, which no API server created
)

// RoleConfigured is the role of the API server's address in calico-node's configuration.
const RoleConfigured = probe.NameConfigured

// TyphaReach connects to each Typha. Where Typha runs, Felix and confd get all their updates from it. If a node
// cannot reach any Typha, it keeps its present rules, and a new node never gets rules.
var TyphaReach = &probe.Check{
	ID: "typha-reach", From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagDatastore, probe.TagFelix}, Access: []string{"host network"},
	Needs: []string{probe.CheckNodeUplink},
}
