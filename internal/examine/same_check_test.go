package examine

import (
	"context"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
)

// TestChecksAreComparedByID has checks as the probe has them, with what answers them: a copy is the same check.
func TestChecksAreComparedByID(t *testing.T) {
	t.Parallel()
	none := func(context.Context, *probe.Pass) {}
	var answers probe.Answers
	reach, session := answers.To(link.NeighbourReach, none), answers.To(bgp.BGPSession, none)
	if answerer(reach) != answerer(link.NeighbourReach) || answerer(session) != answerer(bgp.BGPSession) {
		t.Error("who answers a check depends on which value of it is asked")
	}
	if got := ByOneProbe([]*probe.Check{reach, session}); len(got) != 1 || !got[0].Is(session) {
		t.Errorf("%v, want the sessions alone", CheckIDs(got))
	}
}
