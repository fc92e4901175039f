//go:build e2e

package drops

import (
	"context"
	"strings"
	"sync"
	"testing"
)

// TestRealFew drops every fourth packet by a rule. That is too few to judge, so no place is named or ruled out.
func TestRealFew(t *testing.T) {
	t.Parallel()
	l, inside := open(t)
	if !inside {
		return
	}
	l.do(nftDrop("", "inet", "forward", "ip daddr 10.9.1.2 numgen inc mod 4 == 0 counter drop"))
	found := l.ask(way{from: "pod"})
	if found.Lost == 0 || found.Lost == found.Packets || len(found.Deaths) > 0 || found.Beyond() ||
		!strings.Contains(found.Lines(Shape{})[0], "less than half") {
		t.Errorf("%q: %+v", found.Lines(Shape{}), found)
	}
}

// TestRealUncountedBesideOthers drops a pod's packets by a rule without a counter, while other senders send as much
// through the same interface. The result must not claim a loss beyond the node.
func TestRealUncountedBesideOthers(t *testing.T) {
	t.Parallel()
	l, inside := open(t)
	if !inside {
		return
	}
	l.do(nftDrop("", "inet", "forward", "ip daddr 10.9.1.2 drop"))
	ctx, cancel := context.WithCancel(t.Context())
	var noise sync.WaitGroup
	defer func() { cancel(); noise.Wait() }()
	noise.Go(func() {
		for ctx.Err() == nil {
			_, _ = burst(ctx, l.spaces[Node], farFine, Shape{}, 25)
		}
	})
	found := l.ask(way{from: "pod"})
	if !found.Left || found.Uncounted != 1 || found.Beyond() || len(found.Deaths) > 0 {
		t.Errorf("%q: %+v", found.Lines(Shape{}), found)
	}
}
