package ask

import (
	"context"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/tally"
)

// uplinkQueueCheck binds link.UplinkQueue to the function that runs it.
var uplinkQueueCheck = answers.To(link.UplinkQueue, uplinkQueue)

// Facts of uplink-queue.
const (
	factQueue   probe.Fact = "queue"   // the kind of queueing discipline that limits traffic: htb, netem, ...
	factDropped probe.Fact = "dropped" // number of packets since the discipline was set
)

// limiting lists the disciplines that drop or delay packets that the interface could send. No kernel sets one
// of them by default.
var limiting = []string{"htb", "tbf", "netem", "hfsc", "cbq"}

func uplinkQueue(_ context.Context, p *probe.Pass) {
	device := node.UplinkName(p)
	if device == "" {
		p.Report(probe.Found(probe.Skip, "no interface has a known IPv4 address of this node"))
		return
	}
	tallies, err := tally.All(p.Host)
	// The error may concern other counters. If no queue was read, the error concerns the queues.
	if !slices.ContainsFunc(tallies, func(t tally.Tally) bool { return t.Table == tally.Queue }) && err != nil {
		p.Report(node.Unseen(err))
		return
	}
	p.Report(judgeQueue(tallies, device))
}

// judgeQueue evaluates the disciplines of one interface by their counters.
func judgeQueue(tallies []tally.Tally, device string) probe.Result {
	r := probe.Found(probe.OK, "no queueing discipline limits %s", device).With(probe.FactInterface, device)
	for _, t := range tallies {
		of := strings.Fields(t.Of) // eth0 htb 1:0
		if t.Table != tally.Queue || len(of) < 2 || of[0] != device || !slices.Contains(limiting, of[1]) {
			continue
		}
		if dropped, seen := r.Facts[factDropped].(int); seen && dropped >= int(t.N) {
			continue // a child discipline counts the same packets as its parent
		}
		r = probe.Found(probe.Info, "%s has the queueing discipline %s, which has dropped %d packets", device, of[1],
			t.N).With(probe.FactInterface, device).With(factQueue, of[1]).With(factDropped, int(t.N))
	}
	return r
}
