package drops

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// sizes are the possible sizes of a search's bursts. They are odd and all different, so a counter that grows by the
// same amount each time does not match. The choice is random, so two searches on one node at the same time are not
// mistaken for each other. The last burst is sent only if a counter matched the other bursts.
var sizes = [][]int{{15, 17, 19}, {21, 23, 25}, {11, 13}}

// enough bursts show whether there is a match to confirm.
const enough = 2

// bursts picks the sizes for one search.
func bursts() []int {
	var out []int
	for _, of := range sizes {
		out = append(out, of[rand.IntN(len(of))])
	}
	return out
}

// window is a burst and the pause of the same length after it.
type window struct {
	Sent, Lost  int            // our packets to the target
	Grew, After map[Key]uint64 // counters that grew in the burst, and in the pause without a loss of our packets
}

// few reports that less than half of a burst was lost. That is too little to find the place.
func (w window) few() bool { return w.Lost*2 < w.Sent || w.Lost == 0 }

// slack is how many foreign packets a counter may count in addition to this many of ours.
func slack(lost int) int { return lost / 5 }

// match finds the counters that grew by the number of lost packets and by little more.
//
// Let l be the packets lost in a burst. A counter matches if there is a k of 1 or 2 such that in every burst it grew by
// k*l, and by at most l/5 more, and by at most l/5 in the pause after it. k is 2 if a packet is counted on its way
// there and its ICMP error on the way back. In each burst at least half of the packets must be lost.
//
// How often does a counter match by chance? Take a counter that other traffic makes grow at random (Poisson), by m on
// average in a window. With the smallest bursts it must count 15 to 18, then at most 3, then 21 to 25, at most 4, 11 to
// 13, and at most 2. The product of these probabilities has its maximum of less than one in 30 billion near m = 10.
// With k = 2 it is even lower. If only half of the packets are lost, it is one in 10 million. Traffic in bursts of our
// size and pace is worse: a counter that grows by 0 to 29 at a time, three times a second, matches once in some 100,000
// searches. TestChance computes all three. Traffic in step with our bursts is excluded differently: in the pauses, as
// many packets go to a target that answers.
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
	slices.SortFunc(out, func(a, b Key) int { // a counter of one object is more specific than a total
		return cmp.Or(cmp.Compare(b.Of, a.Of), cmp.Compare(a.Where, b.Where), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// fits reports whether a counter grew by times the number of lost packets.
func fits(windows []window, k Key, times int) bool {
	for _, w := range windows {
		n, want, more := int(w.Grew[k]), times*w.Lost, slack(w.Lost)
		if n < want || n > want+more || int(w.After[k]) > more {
			return false
		}
	}
	return true
}
