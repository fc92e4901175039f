package ask

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// nodeClockCheck binds host.NodeClock to the function that runs it.
var nodeClockCheck = answers.To(host.NodeClock, nodeClock)

// Facts of node-clock.
const factSynchronised probe.Fact = "synchronised" // as reported by the kernel

// skewWrong is the difference that the API server tolerates for the times in a token (jwt.DefaultLeeway in go-jose).
// If the difference is larger, the API server rejects tokens.
const skewWrong = time.Minute

// planDelay is the maximum time from a plan's creation to its check. For example, an image must
// first be pulled, or a slow node attaches late.
const planDelay = 10 * time.Minute

func nodeClock(ctx context.Context, p *probe.Pass) {
	synced, err := isSynchronised()
	r, skew, known := probe.Found(probe.Info, "the API server's clock is unavailable"), time.Duration(0), false
	late := time.Since(p.Now).Round(time.Second) // the skew plus the plan's delay
	planned := !p.Now.IsZero()
	switch low, high, answered := askClock(ctx, p); {
	case answered && planned && (low > late+node.SkewOdd || high < late-planDelay):
		r = probe.Found(probe.Unknown, "the API server's answers to this node and to the client differ by %v: "+
			"a server's clock is wrong", max(low-late, late-high))
	case answered:
		skew, known = max(low, 0)+min(high, 0), true
		r = clockWithin(max(high, -low))
	case !planned:
	case late <= node.SkewOdd || late > planDelay:
		skew, known = late, true
		r = clockWithin(skew.Abs())
	default:
		r = probe.Found(probe.Info, "at most %v ahead of the API server's clock: the plan's delay counts too", late)
	}
	switch {
	case skew.Abs() > skewWrong:
		r = clockDiffers(probe.Fail, skew)
	case skew.Abs() > node.SkewOdd:
		r = clockDiffers(probe.Warn, skew)
	case known && err == nil && !synced:
		r.Status = probe.Info
	}
	if known {
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

func clockWithin(d time.Duration) probe.Result {
	return probe.Found(probe.OK, "within %v of the API server's clock", d)
}

func clockDiffers(status probe.Status, skew time.Duration) probe.Result {
	way := "ahead of"
	if skew < 0 {
		way = "behind"
	}
	return probe.Found(status, "%v %s the API server's clock", skew.Abs(), way)
}

// askClock limits the difference between the node's clock and the API server's clock, in whole seconds. It uses the
// Date of an answer. The server wrote the Date, which has no fractions of a second, between the request and the answer.
func askClock(ctx context.Context, p *probe.Pass) (low, high time.Duration, ok bool) {
	for _, t := range p.Of(probe.KindDatastore) {
		if t.Name == node.NameEtcd || !t.Addr.IsValid() {
			continue
		}
		one, _, cancel := node.Part(ctx, 2) // leaves time for another server
		began := time.Now()
		trip, err := node.Readyz(one, netip.AddrPortFrom(t.Addr, uint16(t.Port)))
		got := time.Now()
		cancel()
		if err != nil {
			continue
		}
		date, err := http.ParseTime(trip.Page.Header.Get("Date"))
		if err != nil {
			continue
		}
		low, high = began.Add(trip.Connect+trip.Handshake-time.Second).Sub(date), got.Sub(date)
		return low.Truncate(time.Second), high.Truncate(time.Second), true
	}
	return 0, 0, false
}
