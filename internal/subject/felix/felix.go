// Package felix names the checks of Felix: its health endpoints, and the facts they report. Both binaries link it.
package felix

import (
	"github.com/calico-probe/calico-probe/probe"
)

// Facts of the Felix checks.
const FactBad probe.Fact = "bad" // names of the components that are not in order

// FelixLive asks what calico-node's liveness probe asks. A container that fails
// it is killed: in the field, by a start longer than the kill budget, by
// "localhost" pointing to another machine, by a data plane that hangs.
var FelixLive = &probe.Check{
	ID: "felix-live", Asks: "does Felix answer its liveness port?", From: probe.FromNode,
	Tags: []string{probe.TagFelix}, Access: []string{"host network", "etc/hosts"},
	Doc: `calico-node's liveness probe asks http://localhost:9099/liveness; when that fails for the whole kill budget, the container is killed and starts again.
ok: Felix answers 200 with its table of components, or 204 as versions before v3.23 do.
fail, refused: nothing listens there. Felix opens the port only after the node's start-up has finished, so a container that is killed before never opens it. If something listens on the same port of another address, that is said.
fail, no answer: the port accepts and Felix does not answer in time: starved of CPU, or frozen.
fail, 503: a component has not reported in time or reports non-live; the table names it.
fail, foreign address: "localhost" leads to an address that is not this machine's loopback, so the kubelet asks somebody else. Look at the node's /etc/hosts.
skip: Felix is set not to answer (healthEnabled). fail, or warn when the kubelet takes its answer for good: something answers there that is not Felix; its process is named. unknown: where Felix is set to answer could not be read.`,
}

// FelixReady asks what the readiness probe asks; it differs from liveness while
// the datastore cannot be reached.
var FelixReady = &probe.Check{
	ID: "felix-ready", Asks: "does Felix call itself ready?", From: probe.FromNode,
	Tags: []string{probe.TagFelix}, Access: []string{"host network", "etc/hosts"},
	Doc: `Felix is ready when it has synchronised with the datastore and programmed the data plane once.
ok: it says so. fail, 503: the table names the component that is not ready; FelixStartup alone means that the datastore or Typha has not been reached yet, while liveness stays good.
The other answers mean what they mean for felix-live.`,
}

// FactNextStart is where Felix will answer from its next start on, where calico-node's own probe
// will not ask it.
const FactNextStart probe.Fact = "next_start"
