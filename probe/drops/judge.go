package drops

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// sizes holds the possible sizes of a search's bursts. They are odd and all different, so a counter that grows by a
// constant amount does not match. The choice is random. Two searches that run on one node at the same time are
// therefore not mistaken for each other. The last burst is sent only if a counter matched the other bursts.
var sizes = [][]int{{15, 17, 19}, {21, 23, 25}, {11, 13}}

// enough bursts to show whether there is a match to confirm.
const enough = 2

// bursts picks the sizes for one search.
func bursts() []int {
	var out []int
	for _, of := range sizes {
		out = append(out, of[rand.IntN(len(of))])
	}
	return out
}

// window is a burst and the pause after it, which has the same length.
type window struct {
	Sent, Lost  int            // our packets to the target
	Grew, After map[Key]uint64 // counters that grew in the burst, and those that grew in the pause
}

// few reports whether less than half of a burst was lost. That is too little to find the place.
func (w window) few() bool { return w.Lost*2 < w.Sent || w.Lost == 0 }

// slack limits the number of foreign packets that a counter may count in addition to this many of our own.
func slack(lost int) int { return lost / 5 }

// match finds the counters that grew by the number of lost packets, or by slightly more.
//
// Let l be the number of packets lost in a burst. A counter matches if, for k = 1 or k = 2, it grew by k*l in every
// burst, plus at most l/5. In the pause after a burst, it may grow by at most l/5. k is 2 if a packet is counted on its
// way out, and its ICMP error on the way back. At least half of the packets in each burst must be lost.
//
// How often does a counter match by chance? Take a counter that grows at random because of other traffic (Poisson), by
// m on average in a window. With the smallest bursts, it must count 15 to 18, then at most 3, then 21 to 25, at most 4,
// 11 to 13, and at most 2. The product of these probabilities is highest near m = 10, where it is less than one in 30
// billion. For k = 2, it is even lower. If only half of the packets are lost, the probability is one in 10 million. It
// is higher for traffic whose bursts have the size and pace of our own: a counter that grows by 0 to 29 at a time,
// three times a second, matches once in about 100,000 searches. TestChance computes all three probabilities. Traffic
// that is in step with our bursts is excluded in another way: in the pauses, the same number of packets is sent to a
// target that answers.
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
	slices.SortFunc(out, func(a, b Key) int { // the counter of a single object is more specific than a total
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
