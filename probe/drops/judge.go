package drops

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// sizes are those that a burst may have, the first and the second. They are odd, and no two bursts of a search have the
// same: what grows by the same each time is not taken for them. Which they are is left to chance, so that two searches
// on one node at a time are not taken for each other.
var sizes = [][]int{{15, 17, 19, 21}, {23, 25, 27, 29}}

// bursts chooses.
func bursts() []int {
	var out []int
	for _, of := range sizes {
		out = append(out, of[rand.IntN(len(of))])
	}
	return out
}

// window is what happened in one stretch of time, all of which are equally long.
type window struct {
	Lost int            // of our packets to the target in question; 0 in a pause
	Grew map[Key]uint64 // counters that grew
}

// fewest are lost packets in a window by which a counter is told from noise.
const fewest = 12

// slack is how many packets of others a counter may have counted beside so many of ours.
func slack(lost int) int { return lost / 5 }

// match finds the counters that grew by the lost packets and by little else.
//
// Let l be the packets lost in each window with a burst, and c what a counter grew by in those between, in which none
// was lost. A counter fits when every c is at most a fifth of the smallest l, and there is a k of 1 or 2 (a packet may
// be counted on its way there, and its ICMP error on the way back) for which it grew by k*l, and by at most l/5 more,
// in every window with a burst. There are at least two of those, and in each at least fewest were lost.
//
// How often does chance do that? Take a counter that others make grow at random (Poisson), m on average in a window.
// With the smallest bursts, of 15 and 23, it has to count 15 to 18, then 23 to 27, and in the two windows between at
// most 3 each. P(15..18)*P(23..27)*P(0..3)^2 has its maximum of one in 300 million near m = 11; with k = 2 it is less
// still. On a node with 1,000 counters that all had this worst rate, one search in 300,000 would name a false place;
// counters at rest or in the thousands add nothing. Where a part of the packets is lost the numbers are smaller: with
// 12 and 12, the fewest, it is one in 400,000 for a counter at its worst. TestChance computes both.
//
// What comes in step with our bursts is not chance: the windows between, in which as many packets go to a target that
// answers, are for that.
func match(windows []window) []Key {
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
func fits(windows []window, k Key, times int) bool {
	quiet := math.MaxInt
	for _, w := range windows {
		if w.Lost > 0 {
			quiet = min(quiet, slack(w.Lost))
		}
	}
	for _, w := range windows {
		n, want, more := int(w.Grew[k]), times*w.Lost, slack(w.Lost)
		if w.Lost == 0 {
			more = quiet
		}
		if n < want || n > want+more {
			return false
		}
	}
	return true
}
