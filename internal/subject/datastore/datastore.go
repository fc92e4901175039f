// Package datastore names the checks of the datastore: the API server or etcd, and Typha, and the facts they report.
// Both binaries link it.
package datastore

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// DatastoreLatency measures the way to Calico's datastore from this very node. In
// the field a far-away node was killed a minute after each start: its start-up
// took more round trips than the liveness budget had time for (startup-budget).
var DatastoreLatency = &probe.Check{
	ID: "datastore-latency", Asks: "does Calico's datastore answer this node, and how far is it?", From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagDatastore}, Access: []string{"host network", "etc/cni"},
	Needs: []string{probe.CheckNodeUplink}, Limit: 10 * time.Second,
	Doc: `The API server's service address, as pods reach it, and each API server behind it, as the node reaches it; and each endpoint of etcd, where Calico keeps its data there: and the address that calico-node is told instead (ConfigMap kubernetes-services-endpoint, or its own environment): five connections each, with the time for TCP, TLS and the first answer. The API server is asked whether it is ready (/readyz), which it is not without its etcd. etcd is shown the client certificate that Calico's CNI plugin uses (/etc/cni/net.d/calico-tls), and asked whether it is healthy.
ok: all answered. warn: some attempts failed; or a certificate expires within two weeks. fail: none answered, and how the connection failed; the API server, or a load balancer before it, answers with 5xx; etcd is not healthy, or rejects the certificate; a certificate has expired.
When the endpoints answer and the service address does not, kube-proxy's rules on this node are what is broken.
401 and 403 count as answers, and so does etcd's request for a client certificate where this probe cannot read one.`,
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
	ID: "typha-reach", Asks: "does every Typha answer this node?", From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagDatastore, probe.TagFelix}, Access: []string{"host network"},
	Needs: []string{probe.CheckNodeUplink},
	Doc: `The probe connects to each Typha behind its service and starts a TLS handshake, each with four fifths of the check's time. It has no certificate of Calico's: a handshake that ends because of that counts as an answer. A Typha without TLS closes the connection.
ok: each answers. info: one closes the connection without a word, as Typha does that works without TLS, and as one may that is ill, or something before it. warn: some do not; Felix picks another, at the latest when it is started anew. fail: none does: Felix cannot start here ("Failed to connect to Typha"), and one that runs learns nothing new; how each connection failed says why: refused (nothing listens), no answer (a firewall on TCP 5473, or a frozen Typha), another alert of TLS, or a certificate that has run out.
skip: this cluster has no Typha.`,
}
