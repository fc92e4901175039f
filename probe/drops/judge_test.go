package drops

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/calico-probe/calico-probe/probe/tally"
)

var (
	counter = Key{Where: Node, Table: tally.Netstat, Name: "TcpExtIPReversePathFilter"}
	other   = Key{Where: Node, Table: tally.SNMP, Name: "IpInDiscards"}
)

// lostAll are windows in which these whole bursts are lost. of has the growth of counters, alternating between bursts
// and pauses.
func lostAll(bursts []int, of map[Key][]uint64) []window {
	var out []window
	for i, lost := range bursts {
		w := window{Sent: lost, Lost: lost, Grew: map[Key]uint64{}, After: map[Key]uint64{}}
		for k, n := range of {
			w.Grew[k], w.After[k] = n[2*i], n[2*i+1]
		}
		out = append(out, w)
	}
	return out
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		grew []uint64
		fits bool
	}{
		"by what was lost":            {[]uint64{17, 0, 23, 0, 9, 0}, true},
		"and by a few of others":      {[]uint64{18, 1, 25, 4, 10, 1}, true},
		"once there, once back":       {[]uint64{34, 0, 46, 0, 18, 0}, true},
		"by too many in a pause":      {[]uint64{17, 4, 23, 0, 9, 0}, false},
		"by one less":                 {[]uint64{16, 0, 23, 0, 9, 0}, false},
		"the same each time":          {[]uint64{23, 0, 23, 0, 23, 0}, false},
		"out of proportion":           {[]uint64{17, 0, 40, 0, 9, 0}, false},
		"once as many, once twice":    {[]uint64{17, 0, 46, 0, 9, 0}, false},
		"all the time":                {[]uint64{20, 20, 24, 22, 11, 19}, false},
		"with what comes back":        {[]uint64{17, 17, 23, 23, 9, 9}, false},
		"in one burst alone":          {[]uint64{17, 0, 0, 0, 0, 0}, false},
		"but in the last":             {[]uint64{17, 0, 23, 0, 0, 0}, false},
		"a flood that comes and goes": {[]uint64{5000, 0, 7000, 0, 3000, 0}, false},
		"never":                       {make([]uint64, 6), false},
	} {
		got := match(lostAll([]int{17, 23, 9}, map[Key][]uint64{counter: c.grew, other: {1, 1, 1, 1, 1, 1}}))
		if is := len(got) == 1 && got[0] == counter; is != c.fits || len(got) > 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestMatchOfPart checks that a path that loses most packets is judged, and one that loses few is not.
func TestMatchOfPart(t *testing.T) {
	t.Parallel()
	w := lostAll([]int{13, 15}, map[Key][]uint64{counter: {13, 0, 15, 0}})
	w[0].Sent, w[1].Sent = 17, 23
	if got := match(w); len(got) != 1 {
		t.Errorf("13 and 15 of 17 and 23: %v", got)
	}
	w = lostAll([]int{8, 11}, map[Key][]uint64{counter: {8, 0, 11, 0}})
	w[0].Sent, w[1].Sent = 17, 23
	if got := match(w); len(got) != 0 {
		t.Errorf("8 and 11 lost: %v", got)
	}
	if got := match(w[:1]); len(got) != 0 {
		t.Errorf("one burst: %v", got)
	}
}

// TestChance verifies the probabilities in match's comment: exactly for counters that grow at random, and by simulation
// for those that grow in bursts like ours.
func TestChance(t *testing.T) {
	t.Parallel()
	poisson := func(m float64, from, to int) float64 {
		sum := 0.0
		for n := from; n <= to; n++ {
			l, _ := math.Lgamma(float64(n + 1))
			sum += math.Exp(float64(n)*math.Log(m) - m - l)
		}
		return sum
	}
	for _, c := range []struct {
		lost []int
		most float64
	}{{[]int{15, 21, 11}, 1 / 30e9}, {[]int{8, 11, 6}, 1 / 10e6}} {
		worst, at := 0.0, 0.0
		for m := 0.1; m < 60; m += 0.1 {
			both := 0.0
			for times := 1; times <= 2; times++ {
				p := 1.0
				for _, l := range c.lost {
					p *= poisson(m, times*l, times*l+slack(l)) * poisson(m, 0, slack(l))
				}
				both += p
			}
			if both > worst {
				worst, at = both, m
			}
		}
		t.Logf("%v lost: worst at %.1f a window, once in %.3g searches", c.lost, at, 1/worst)
		if worst > c.most {
			t.Errorf("%v lost: a counter fits by chance more than once in %.0f searches", c.lost, 1/c.most)
		}
	}
	const tries, length = 300_000, 0.38 // seconds of a window, including reading
	random := rand.New(rand.NewPCG(1, 2))
	hits := 0
	for range tries {
		grew := make([]uint64, 6)
		for at := -random.Float64(); at < length*6; at += random.Float64() * 0.6 {
			if at >= 0 {
				grew[min(5, int(at/length))] += uint64(random.IntN(30))
			}
		}
		hits += len(match(lostAll([]int{17, 23, 11}, map[Key][]uint64{counter: grew})))
	}
	if t.Logf("in bursts as ours: %d of %d", hits, tries); hits > 10 {
		t.Errorf("a counter that grows in bursts fits %d times in %d searches", hits, tries)
	}
}
