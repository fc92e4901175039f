package mesh

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// cluster are so many nodes in so many zones, one after the other.
func cluster(nodes, zones int) []Node {
	var out []Node
	for i := range nodes {
		out = append(out, Node{Name: fmt.Sprintf("n%03d", i), Zone: string(rune('a' + i%zones))})
	}
	return out
}

func TestPaths(t *testing.T) {
	t.Parallel()
	if got := len(Paths(cluster(10, 2))); got != 90 {
		t.Errorf("%d paths of ten nodes", got)
	}
	for _, c := range []struct{ nodes, zones int }{{60, 3}, {100, 1}, {300, 7}, {61, 61}, {1000, 5}} {
		nodes := cluster(c.nodes, c.zones)
		paths := Paths(nodes)
		out, in, other := map[int]int{}, map[int]int{}, map[int]int{}
		for i, p := range paths {
			if p.From == p.To || i > 0 && paths[i-1] == p {
				t.Fatalf("%+v: %v", c, p)
			}
			out[p.From]++
			in[p.To]++
			if nodes[p.From].Zone != nodes[p.To].Zone {
				other[p.From]++
			}
		}
		for i := range nodes {
			if out[i] != degree || in[i] == 0 || c.zones > 1 && c.zones < c.nodes && other[i] != across {
				t.Errorf("%+v: node %d tries %d, is tried by %d, %d elsewhere", c, i, out[i], in[i], other[i])
				break
			}
		}
	}
}

// TestAroundMany looks around half of the nodes of many zones within seconds, each path once.
func TestAroundMany(t *testing.T) {
	t.Parallel()
	var nodes []Node
	for i := range 2000 {
		nodes = append(nodes, Node{Name: fmt.Sprintf("n%04d", i), Zone: fmt.Sprint(i % 40)})
	}
	var failed []Path
	for i := range 500 {
		failed = append(failed, Path{2 * i, 2*i + 1})
	}
	began := time.Now()
	around := Around(nodes, map[Path]bool{}, failed)
	seen := map[Path]bool{}
	for _, p := range around {
		if seen[p] {
			t.Fatalf("%v stands twice", p)
		}
		seen[p] = true
	}
	if took := time.Since(began); len(around) != 1000*40*2*2 || took > 5*time.Second {
		t.Errorf("%d paths in %v", len(around), took)
	}
}

// TestJudge breaks a part, tries the paths, and requires that the report names it.
func TestJudge(t *testing.T) {
	t.Parallel()
	zone := func(nodes []Node, i int) string { return nodes[i].Zone }
	for name, c := range map[string]struct {
		nodes, zones int
		racks        int // in each zone, one after the other
		broken       func([]Node, Path) bool
		want         []string
	}{
		"nothing":      {80, 3, 0, func([]Node, Path) bool { return false }, nil},
		"a node":       {80, 3, 0, func(_ []Node, p Path) bool { return p.From == 7 || p.To == 7 }, []string{"node n007"}},
		"one of three": {3, 1, 0, func(_ []Node, p Path) bool { return p.From == 1 || p.To == 1 }, []string{"node n001"}},
		"two nodes": {12, 3, 0, func(_ []Node, p Path) bool { return p.From%9 == 2 || p.To%9 == 2 },
			[]string{"node n002", "node n011"}},
		"a zone": {30, 3, 0, func(n []Node, p Path) bool { return (zone(n, p.From) == "b") != (zone(n, p.To) == "b") },
			[]string{"zone b"}},
		"two zones": {90, 4, 0, func(n []Node, p Path) bool {
			return zone(n, p.From)+zone(n, p.To) == "ac" || zone(n, p.From)+zone(n, p.To) == "ca"
		}, []string{"zones a c"}},
		"a pair": {20, 2, 0, func(_ []Node, p Path) bool { return p == Path{3, 4} || p == Path{4, 3} },
			[]string{"pair n003 n004"}},
		"one way": {20, 2, 0, func(_ []Node, p Path) bool { return p == Path{4, 3} }, []string{"pair n004 n003"}},
		"of two":  {2, 1, 0, func(_ []Node, p Path) bool { return true }, []string{"pair n000 n001"}},
		"node, pair": {20, 2, 0, func(_ []Node, p Path) bool { return p.From == 9 || p.To == 9 || p == Path{1, 2} },
			[]string{"node n009", "pair n001 n002"}},
		"into a node": {30, 3, 0, func(_ []Node, p Path) bool { return p.To == 7 }, []string{"node in n007"}},
		"out of one":  {300, 3, 0, func(_ []Node, p Path) bool { return p.From == 7 }, []string{"node out n007"}},
		"a rack": {40, 2, 4, func(n []Node, p Path) bool {
			in := func(i int) bool { return zone(n, i) == "a" && n[i].Rack == "r2" }
			return in(p.From) != in(p.To)
		}, []string{"rack r2 a"}},
		"a rack of many": {600, 3, 10, func(n []Node, p Path) bool {
			in := func(i int) bool { return zone(n, i) == "c" && n[i].Rack == "r7" }
			return in(p.From) != in(p.To)
		}, []string{"rack r7 c"}},
		"into a rack": {60, 2, 4, func(n []Node, p Path) bool {
			in := func(i int) bool { return zone(n, i) == "a" && n[i].Rack == "r2" }
			return !in(p.From) && in(p.To)
		}, []string{"rack in r2 a"}},
		"out of a zone": {90, 3, 0, func(n []Node, p Path) bool { return zone(n, p.From) == "b" && zone(n, p.To) != "b" },
			[]string{"zone out b"}},
		"one way between zones": {90, 4, 0, func(n []Node, p Path) bool {
			return zone(n, p.From)+zone(n, p.To) == "ca"
		}, []string{"zones out c a"}},
		"a rack of one": {12, 1, 12, func(_ []Node, p Path) bool { return p.From == 3 || p.To == 3 }, []string{"node n003"}},
		"a zone of racks": {40, 4, 2, func(n []Node, p Path) bool {
			return (zone(n, p.From) == "b") != (zone(n, p.To) == "b")
		}, []string{"zone b"}},
		"everything":   {12, 3, 2, func([]Node, Path) bool { return true }, []string{"all"}},
		"all of many":  {80, 3, 0, func([]Node, Path) bool { return true }, []string{"all"}},
		"all of three": {3, 1, 0, func([]Node, Path) bool { return true }, []string{"all"}},
		"a lone zone":  {61, 61, 0, func(_ []Node, p Path) bool { return p.From == 5 || p.To == 5 }, []string{"node n005"}},
	} {
		nodes := cluster(c.nodes, c.zones)
		for i := range nodes {
			if c.racks > 0 {
				nodes[i].Rack = fmt.Sprint("r", i/c.zones%c.racks)
			}
		}
		failed, bad := map[Path]bool{}, []Path{}
		try := func(paths []Path) {
			for _, p := range paths {
				if failed[p] = c.broken(nodes, p); failed[p] {
					bad = append(bad, p)
				}
			}
		}
		first := Paths(nodes)
		try(first)
		tried := map[Path]bool{}
		for _, p := range first {
			tried[p] = true
		}
		try(Around(nodes, tried, bad))
		var got []string
		for _, f := range judge(PlaneNode, nodes, failed) {
			text := f.Kind
			if f.Direction != "" {
				text += " " + f.Direction
			}
			for _, n := range f.Names {
				text += " " + n
			}
			got = append(got, text)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
