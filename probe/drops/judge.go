package drops

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// sizes are those that the bursts of a search may have. They are odd, and no two have the same: what grows by the same
// each time is not taken for them. Which they are is left to chance, so that two searches on one node at a time are not
// taken for each other. The last burst is asked for only where something fits the others.
var sizes = [][]int{{15, 17, 19}, {21, 23, 25}, {11, 13}}

// enough bursts say whether there is anything to be confirmed.
const enough = 2

// bursts chooses.
func bursts() []int {
	var out []int
	for _, of := range sizes {
		out = append(out, of[rand.IntN(len(of))])
	}
	return out
}

// window is a burst, and the pause behind it that is as long.
type window struct {
	Sent, Lost  int            // of our packets to the target in question
	Grew, After map[Key]uint64 // counters that grew in the burst, and in the pause, in which none of ours is lost
}

// few tells that less than half of a burst was lost, by which nothing can be told.
func (w window) few() bool { return w.Lost*2 < w.Sent || w.Lost == 0 }

// slack is how many packets of others a counter may have counted beside so many of ours.
func slack(lost int) int { return lost / 5 }

// match finds the counters that grew by the lost packets and by little else.
//
// Let l be the packets lost in a burst. A counter fits when there is a k of 1 or 2 (a packet may be counted on its
// way there, and its ICMP error on the way back) for which it grew by k*l, and by at most l/5 more, in every burst,
// and by at most l/5 in the pause behind it. In each burst at least half of the packets were lost.
//
// How often does chance do that? Take a counter that others make grow at random (Poisson), m on average in a window.
// With the smallest bursts it has to count 15 to 18, then at most 3, then 21 to 25, at most 4, 11 to 13, and at most
// 2. The product of these likelihoods has its maximum of less than one in 30 billion near m = 10; with k = 2 it is
// less still. Where no more than half is lost, it is one in 10 million. What others send in bursts of our size and at
// our pace is worse: a counter that grows by 0 to 29 at a time, three times a second, fits once in some 100,000
// searches. TestChance has all three. What comes in step with our bursts is not chance: in the pauses as many packets
// go to a target that answers.
func match(windows []window) []Key {
	if len(windows) < enough || slices.ContainsFunc(windows, window.few) {
		return nil
	}
	var out []Key
	for k := range windows[0].Grew {
		if fits(windows, k, 1) || fits(windows, k, 2) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b Key) int { // that of one thing tells more than that of all
		return cmp.Or(cmp.Compare(b.Of, a.Of), cmp.Compare(a.Where, b.Where), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// fits tells whether a counter grew by times as many as were lost.
func fits(windows []window, k Key, times int) bool {
	for _, w := range windows {
		n, want, more := int(w.Grew[k]), times*w.Lost, slack(w.Lost)
		if n < want || n > want+more || int(w.After[k]) > more {
			return false
		}
	}
	return true
}
