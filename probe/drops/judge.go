package drops

import (
	"cmp"
	"slices"
)

// The sizes of the bursts to a target that is lost. They are odd and differ, so that what grows by one number each
// time, or by the same each time, is not taken for them.
var bursts = []int{17, 23}

// Window is what happened in one stretch of time, all of which are equally long.
type Window struct {
	Lost int            // of our packets to the target in question; 0 in a pause
	Grew map[Key]uint64 // counters that grew
}

// How far from the number of lost packets a counter may be.
const (
	slack = 4 // packets of others in a window that a counter may count too
	// fewest are lost packets in a window by which a counter is told from noise: more than twice the slack.
	fewest = 12
)

// Match finds the counters that grew by the lost packets and by little else.
//
// Let l be the packets lost in each window with a burst, and c what a counter grew by in the windows between, in which
// none was lost. A counter fits when every c is at most slack, and there is a k of 1 or 2 (a packet may be counted on
// its way there and its ICMP error on the way back) for which it grew by k*l to k*l+slack in every window with a
// burst. There are at least two of those, and in each at least fewest were lost.
//
// How often does chance do that? Take a counter that others make grow at random (Poisson), m on average in a window.
// To fit it has to count 17 to 21 in one window and 23 to 27 in another, but at most 4 in each of the two between.
// The likelihood is P(17..21)*P(23..27)*P(0..4)^2, which has its maximum of less than 1 in 10 million near m = 12; with
// k = 2 it is less still. On a node with 1,000 counters that all had this worst rate, one search in 10,000 would name a
// false place; counters at rest or in the thousands add nothing. TestChance computes it. What comes in step with our
// bursts is not chance: the windows between, in which as many packets go to a target that answers, are for that.
func Match(windows []Window) []Key {
	var grew []Key
	full := 0
	for _, w := range windows {
		if w.Lost == 0 {
			continue
		}
		if full++; w.Lost < fewest {
			return nil
		}
		if full > 1 {
			grew = slices.DeleteFunc(grew, func(k Key) bool { return w.Grew[k] == 0 })
			continue
		}
		for k := range w.Grew {
			grew = append(grew, k)
		}
	}
	if full < 2 {
		return nil
	}
	grew = slices.DeleteFunc(grew, func(k Key) bool { return !fits(windows, k, 1) && !fits(windows, k, 2) })
	slices.SortFunc(grew, func(a, b Key) int { // that of one thing tells more than that of all
		return cmp.Or(cmp.Compare(b.Of, a.Of), cmp.Compare(a.Where, b.Where), cmp.Compare(a.Name, b.Name))
	})
	return grew
}

// fits tells whether a counter grew by times as many as were lost.
func fits(windows []Window, k Key, times int) bool {
	for _, w := range windows {
		n, want := w.Grew[k], uint64(times*w.Lost)
		if n < want || n > want+slack {
			return false
		}
	}
	return true
}
