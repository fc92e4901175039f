package mesh

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/must"
)

// derived are the figures of docs/mesh.md, by the words that begin their rows.
func derived() map[string][]string {
	out := map[string][]string{}
	add := func(row, format string, value any) { out[row] = append(out[row], fmt.Sprintf(format, value)) }
	for _, n := range []int{59, 60, 1000, 5000} {
		paths := len(Paths(inRacks(n)))
		add("paths", "%d", paths)
		add("share of all paths", "%s", percent(float64(paths)/float64(n*(n-1))))
		add("echo requests", "%d", paths*10)
	}
	for _, n := range []int{60, 1000, 5000} {
		nodes := inRacks(n)
		paths := Paths(nodes)
		touch, rack, zone, pairs := make([]int, n), map[string]int{}, map[string]int{}, map[Path]bool{}
		whole := map[string]int{}
		for _, n := range nodes {
			whole[n.Rack]++
		}
		for _, p := range paths {
			a, b := nodes[p.From], nodes[p.To]
			touch[p.From]++
			touch[p.To]++
			if a.Rack != b.Rack {
				rack[a.Rack]++
				rack[b.Rack]++
			}
			if a.Zone != b.Zone {
				zone[min(a.Zone, b.Zone)+max(a.Zone, b.Zone)]++
			}
			pairs[Path{min(p.From, p.To), max(p.From, p.To)}] = true
		}
		for name, n := range whole {
			if n < perRack { // the last racks are not full
				delete(rack, name)
			}
		}
		fewest := func(of map[string]int) int {
			least := math.MaxInt
			for _, n := range of {
				least = min(least, n)
			}
			return least
		}
		add("a node", "%d", slices.Min(touch))
		add("a rack", "%d", fewest(rack))
		add("two zones", "%d", fewest(zone))
		add("one pair", "%s", percent(float64(len(pairs))/float64(n*(n-1)/2)))
		add("one direction", "%s", percent(float64(len(paths))/float64(n*(n-1))))
	}
	for _, share := range []float64{0.05, 0.1, 0.25, 0.5} {
		add("chance that a path fails", "%s", percent(1-math.Pow(1-share, 2*degree)))
	}
	for _, k := range []int{2, 3, 4, degree, 8} {
		add("paths of a node", "%d", 2*k)
		add("chance that a healthy node looks cut off", "%s", percent(alikeCutOff(2*k, 0.1)))
		add("such nodes among 5000", "%.2g", 5000*alikeCutOff(2*k, 0.1))
		add("in all", "%d", 5000*k)
	}
	return out
}

// alikeCutOff is the chance that so many of the paths of a healthy node fail as of one that is cut off, where a share
// of all other nodes is dead.
func alikeCutOff(paths int, dead float64) float64 {
	sum := 0.0
	for failed := int(math.Ceil(minFailed * float64(paths))); failed <= paths; failed++ {
		ways := 1.0
		for i := range failed {
			ways = ways * float64(paths-i) / float64(i+1)
		}
		sum += ways * math.Pow(dead, float64(failed)) * math.Pow(1-dead, float64(paths-failed))
	}
	return sum
}

// perRack is how many nodes a rack has.
const perRack = 20

// inRacks are nodes in three zones and in racks.
func inRacks(n int) []Node {
	nodes := cluster(n, 3)
	for i := range nodes {
		nodes[i].Rack = fmt.Sprint(nodes[i].Zone, i/3/perRack)
	}
	return nodes
}

func percent(share float64) string {
	switch {
	case share >= 0.1:
		return fmt.Sprintf("%.0f %%", 100*share)
	case share >= 0.0001:
		return fmt.Sprintf("%.2g %%", 100*share)
	}
	return fmt.Sprintf("%.0e", share)
}

// TestDerivation requires that the figures in docs/mesh.md are right.
func TestDerivation(t *testing.T) {
	t.Parallel()
	b := must.Get(os.ReadFile("../../docs/mesh.md"))(t)
	for row, want := range derived() {
		line := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(row) + `[^|]*\|(.*)\|$`).FindSubmatch(b)
		var got []string
		if line != nil {
			for cell := range strings.SplitSeq(string(line[1]), "|") {
				got = append(got, strings.TrimSpace(cell))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("docs/mesh.md says of %q %q, and it is %q", row, got, want)
		}
	}
}

// TestRingFinds breaks each node, each rack, each two zones and many pairs of a cluster tested as a ring. Each fault
// must be named, except pairs that are not tried.
func TestRingFinds(t *testing.T) {
	t.Parallel()
	nodes := inRacks(120)
	first := Paths(nodes)
	tries := map[Path]bool{}
	for _, p := range first {
		tries[p] = true
	}
	named := func(broken func(Path) bool) string {
		failed, bad, tried := map[Path]bool{}, []Path{}, map[Path]bool{}
		for _, p := range first {
			tried[p] = true
			if failed[p] = broken(p); failed[p] {
				bad = append(bad, p)
			}
		}
		for _, p := range Around(nodes, tried, bad) {
			failed[p] = broken(p)
		}
		var out []string
		for _, f := range judge(PlaneNode, nodes, failed) {
			out = append(out, strings.Join(append([]string{f.Kind}, f.Names...), " "))
		}
		return strings.Join(out, ", ")
	}
	want := func(what string, broken func(Path) bool) {
		if got := named(broken); got != what {
			t.Errorf("%q, want %q", got, what)
		}
	}
	apart := func(in func(Node) bool) func(Path) bool {
		return func(p Path) bool { return in(nodes[p.From]) != in(nodes[p.To]) }
	}
	racks := map[string]Node{}
	for i, n := range nodes {
		racks[n.Rack] = n
		want("node "+n.Name, apart(func(o Node) bool { return o.Name == n.Name }))
		for j := i % 9; j < i; j += 9 {
			pair, what := func(p Path) bool { return p == Path{i, j} || p == Path{j, i} }, ""
			if tries[Path{i, j}] || tries[Path{j, i}] {
				what = "pair " + nodes[j].Name + " " + n.Name
			}
			got := named(pair)
			if back := "pair " + n.Name + " " + nodes[j].Name; got != what && (what == "" || got != back) {
				t.Errorf("%q, want %q", got, what)
			}
		}
	}
	for _, n := range racks {
		want("rack "+n.Rack+" "+n.Zone, apart(func(o Node) bool { return o.Rack == n.Rack }))
	}
	for _, zones := range []string{"ab", "ac", "bc"} {
		want("zones "+zones[:1]+" "+zones[1:], func(p Path) bool {
			a, b := nodes[p.From].Zone, nodes[p.To].Zone
			return a+b == zones || b+a == zones
		})
	}
}
