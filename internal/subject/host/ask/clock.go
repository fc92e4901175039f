package ask

import (
	"context"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// nodeClockCheck binds host.NodeClock to the function that runs it.
var nodeClockCheck = answers.To(host.NodeClock, nodeClock)

// Facts of node-clock.
const factSynchronised probe.Fact = "synchronised" // as the kernel reports it

// skewWrong is the leeway of the API server for the times in a token (jwt.DefaultLeeway of go-jose). Beyond it, tokens
// are rejected.
const skewWrong = time.Minute

func nodeClock(_ context.Context, p *probe.Pass) {
	synced, err := isSynchronised()
	r := probe.Found(probe.Info, "the API server's clock is unavailable")
	if !p.Now.IsZero() {
		skew := time.Since(p.Now).Round(time.Second)
		r = probe.Found(probe.OK, "within %v of the API server's clock", skew.Abs())
		switch {
		case skew.Abs() > skewWrong:
			r.Status = probe.Fail
		case skew.Abs() > node.SkewOdd:
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
		r = r.With(host.FactSkew, int(skew.Seconds()))
	}
	if err == nil {
		r = r.With(factSynchronised, synced)
		if !synced {
			r.Saw += "; the kernel reports it as unsynchronised"
		}
	}
	p.Report(r)
}
