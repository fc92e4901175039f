//go:build e2e

package drops

import (
	"context"
	"strings"
	"sync"
	"testing"
)

// TestRealFew loses every fourth packet by a rule, and wants no place named and none ruled out: so few are not judged.
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

// TestRealUncountedBesideOthers has a rule without a counter drop what a pod sends, while others send as much by the
// interface by which it would leave, and wants it not said that it is lost beyond the node.
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
