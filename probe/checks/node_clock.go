package checks

import (
	"context"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// NodeClock asks whether the node lives in the same time as the API server:
// tokens and certificates are not valid before their time, nor after it.
var NodeClock = &probe.Check{
	ID: "node-clock", Asks: "is the node's clock right?", From: probe.FromNode,
	Tags: []string{tagHost}, Access: []string{"clock"}, Run: nodeClock,
	Doc: `The node's clock against the API server's, which has whole seconds, and whether the kernel calls it synchronised.
ok: within 5 s. warn: 5 s to a minute apart. fail: more than a minute: tokens, certificates and leases go wrong. info: right, and not synchronised by anybody, so it will drift; or there is no API server's clock to compare with.`,
}

// Facts of node-clock.
const (
	FactSkew         probe.Fact = "skew_s"       // the node's clock minus the API server's, seconds
	FactSynchronised probe.Fact = "synchronised" // by the kernel's own account
)

const (
	skewOdd   = 5 * time.Second
	skewWrong = time.Minute
)

func nodeClock(_ context.Context, p *probe.Pass) {
	synced, err := synchronised()
	r := probe.Found(probe.Info, "no other clock to compare with")
	if !p.Now.IsZero() {
		skew := time.Since(p.Now).Round(time.Second)
		r = probe.Found(probe.OK, "%v from the API server's clock", skew.Abs())
		switch {
		case skew.Abs() > skewWrong:
			r.Status = probe.Fail
		case skew.Abs() > skewOdd:
			r.Status = probe.Warn
		case err == nil && !synced:
			r.Status = probe.Info
		}
		if r.Status == probe.Warn || r.Status == probe.Fail {
			way := "ahead of"
			if skew < 0 {
				way = "behind"
			}
			r.Saw = skew.Abs().String() + " " + way + " the API server's clock"
		}
		r = r.With(FactSkew, int(skew.Seconds()))
	}
	if err == nil {
		r = r.With(FactSynchronised, synced)
		if !synced {
			r.Saw += "; the kernel calls it not synchronised"
		}
	}
	p.Report(r)
}
