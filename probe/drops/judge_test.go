package drops

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/calico-probe/calico-probe/probe/kernel"
)

var (
	counter = Key{Where: Node, Table: kernel.TallyNetstat, Name: "TcpExtIPReversePathFilter"}
	other   = Key{Where: Node, Table: kernel.TallySNMP, Name: "IpInDiscards"}
)

// windows are those of one search: bursts of 17 and 23, and a pause after each.
func windowsOf(of map[Key][4]uint64) []window {
	out := make([]window, 4)
	for i := range out {
		if out[i].Grew = map[Key]uint64{}; i%2 == 0 {
			out[i].Lost = []int{17, 23}[i/2]
		}
		for k, n := range of {
			if n[i] > 0 {
				out[i].Grew[k] = n[i]
			}
		}
	}
	return out
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		grew [4]uint64
		fits bool
	}{
		"by what was lost":            {[4]uint64{17, 0, 23, 0}, true},
		"and by a few of others":      {[4]uint64{18, 1, 25, 2}, true},
		"once there, once back":       {[4]uint64{34, 0, 46, 0}, true},
		"by too many in the pause":    {[4]uint64{17, 4, 23, 0}, false},
		"by one less":                 {[4]uint64{16, 0, 23, 0}, false},
		"the same each time":          {[4]uint64{23, 0, 23, 0}, false},
		"not out of proportion":       {[4]uint64{17, 0, 40, 0}, false},
		"once as many, once twice":    {[4]uint64{17, 0, 46, 0}, false},
		"all the time":                {[4]uint64{20, 20, 24, 22}, false},
		"with what comes back":        {[4]uint64{17, 17, 23, 23}, false},
		"in one burst alone":          {[4]uint64{17, 0, 0, 0}, false},
		"a flood that comes and goes": {[4]uint64{5000, 0, 7000, 0}, false},
		"never":                       {},
	} {
		got := match(windowsOf(map[Key][4]uint64{counter: c.grew, other: {1, 1, 1, 1}}))
		if is := len(got) == 1 && got[0] == counter; is != c.fits || len(got) > 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestMatchOfPart wants a path that loses a part judged by that part, and too few lost not judged at all.
func TestMatchOfPart(t *testing.T) {
	t.Parallel()
	w := windowsOf(map[Key][4]uint64{counter: {13, 0, 15, 0}})
	w[0].Lost, w[2].Lost = 13, 15
	if got := match(w); len(got) != 1 {
		t.Errorf("13 and 15 of 17 and 23: %v", got)
	}
	w = windowsOf(map[Key][4]uint64{counter: {3, 0, 5, 0}})
	w[0].Lost, w[2].Lost = 3, 5
	if got := match(w); len(got) != 0 {
		t.Errorf("3 and 5 lost: %v", got)
	}
	if got := match(w[:1]); len(got) != 0 {
		t.Errorf("one burst: %v", got)
	}
}

// TestChance holds what match says of chance: exactly for one counter at each rate, and by trying for many.
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
		one, two int
		most     float64
	}{{sizes[0][0], sizes[1][0], 1.0 / 300e6}, {fewest, fewest, 1.0 / 400e3}} {
		worst, at := 0.0, 0.0
		for m := 0.1; m < 60; m += 0.1 {
			both := 0.0
			for times := 1; times <= 2; times++ {
				one, two := times*c.one, times*c.two
				both += poisson(m, one, one+slack(c.one)) * poisson(m, two, two+slack(c.two))
			}
			if p := both * math.Pow(poisson(m, 0, slack(c.one)), 2); p > worst {
				worst, at = p, m
			}
		}
		if worst > c.most {
			t.Errorf("%d and %d: one counter at %.1f a window fits by chance once in %.0f searches", c.one, c.two, at, 1/worst)
		}
		t.Logf("%d and %d: worst at %.1f a window, once in %.0f searches", c.one, c.two, at, 1/worst)
	}
	for range 200 { // a node whose thousand counters all grow
		of := map[Key][4]uint64{}
		for i := range 1000 {
			rate := math.Exp(rand.Float64()*9 - 2) // 0.1 to 1,000 a window
			var n [4]uint64
			for w := range n {
				n[w] = uint64(max(0, math.Round(rate+rand.NormFloat64()*math.Sqrt(rate))))
			}
			of[Key{Of: "counter", Name: string(rune('a' + i))}] = n
		}
		of[counter] = [4]uint64{17, 0, 23, 0}
		if got := match(windowsOf(of)); len(got) != 1 || got[0] != counter {
			t.Fatalf("%v", got)
		}
	}
}
