package checks

import (
	"context"

	"github.com/calico-probe/calico-probe/probe"
)

// FelixReady asks what the readiness probe asks; it differs from liveness while
// the datastore cannot be reached.
var FelixReady = &probe.Check{
	ID: "felix-ready", Asks: "does Felix call itself ready?", From: probe.FromNode,
	Tags: []string{tagFelix}, Access: []string{"host network", "etc/hosts"},
	Run: func(ctx context.Context, p *probe.Pass) { askFelix(ctx, p, "/readiness") },
	Doc: `Felix is ready when it has synchronised with the datastore and programmed the data plane once.
ok: it says so. fail, 503: the table names the component that is not ready; FelixStartup alone means that the datastore or Typha has not been reached yet, while liveness stays good.
The other answers mean what they mean for felix-live.`,
}
