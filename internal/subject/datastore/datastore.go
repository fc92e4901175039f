// Package datastore names the checks of the datastore: the API server or etcd, and Typha, and the facts they report.
// Both binaries link it.
package datastore

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Checks are the checks of this subject, in the order in which they are shown.
func Checks() []*probe.Check {
	return []*probe.Check{DatastoreLatency, TyphaReach}
}

// DatastoreLatency measures the way to Calico's datastore from this very node. In
// the field a far-away node was killed a minute after each start: its start-up
// took more round trips than the liveness budget had time for (startup-budget).
var DatastoreLatency = &probe.Check{
	ID: "datastore-latency", From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagDatastore}, Access: []string{"host network", "etc/cni"},
	Needs: []string{probe.CheckNodeUplink}, Limit: 10 * time.Second,
}

// Facts of datastore-latency.
const (
	FactAnswer probe.Fact = "answer_ms" // from request to first byte, median

	FactSetBy probe.Fact = "set_by" // what tells calico-node to look for the API server there
	FactSlice probe.Fact = "slice"  // EndpointSlice of an API server's address, where none of theirs
)

// Roles of what datastore-latency, dns-cluster and dns-external ask.
const RoleConfigured = probe.NameConfigured // where calico-node is told to look for the API server

// TyphaReach asks every Typha, through which Felix and confd hear of everything
// where it is used: with none in reach, a node keeps the rules it has, and a new
// one never gets any.
var TyphaReach = &probe.Check{
	ID: "typha-reach", From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagDatastore, probe.TagFelix}, Access: []string{"host network"},
	Needs: []string{probe.CheckNodeUplink},
}
