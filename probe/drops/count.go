package drops

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/netns"
	"github.com/calico-probe/calico-probe/probe/tally"
)

// Space is a network namespace in which packets are sent or counted.
type Space struct {
	Name string      // Node, or the pod's name
	Host *probe.Host // of this process
	View *netns.View // nil = this process's namespace
}

// Do runs f inside the namespace. It uses a separate thread unless the namespace is this process's namespace. f must
// not open sockets or files on another goroutine, because that goroutine runs in the wrong namespace.
func (s Space) Do(f func(h *probe.Host) error) error {
	if s.View == nil {
		return f(s.Host)
	}
	return s.View.Do(f)
}

// Key is one counter in one network namespace.
type Key struct{ Where, Table, Of, Name string }

// tableRule is the table in a Key for a firewall rule.
const tableRule = "rule"

// Counts holds the values of all counters at one moment.
type Counts struct {
	home  string // the namespace that was counted first
	n     map[Key]uint64
	rules map[Key]kernel.Refusal
}

// Count reads all counters in the given namespaces. The node's namespace must be first, because only the node has
// Calico chains. If some counters are unreadable, Count returns the others together with an error.
func Count(in []Space) (Counts, error) {
	c := Counts{n: map[Key]uint64{}, rules: map[Key]kernel.Refusal{}}
	if len(in) > 0 {
		c.home = in[0].Name
	}
	var errs []error
	for _, s := range in {
		err := s.Do(func(h *probe.Host) error {
			tallies, err := tally.All(h)
			for _, t := range tallies {
				if t.Table == tally.Softnet && s.Name != c.home { // the counter covers the whole machine
					continue
				}
				c.n[Key{s.Name, t.Table, t.Of, t.Name}] += t.N
			}
			rules, ruled := kernel.Refusals(h)
			for _, r := range rules {
				c.add(s.Name, r)
			}
			return errors.Join(err, ruled)
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name, err))
		}
	}
	return c, errors.Join(errs...)
}

func (c Counts) add(where string, r kernel.Refusal) {
	k := Key{where, tableRule, strings.Join([]string{r.Wall, r.Family, r.Table, r.Chain}, " "), fmt.Sprint(r.Handle)}
	c.rules[k] = r
	if r.Counted {
		c.n[k] = r.Packets
	}
}

// Since returns by how much each counter of lost packets grew since an earlier moment. It ignores counters that are
// new or have become smaller.
func (c Counts) Since(before Counts) map[Key]uint64 {
	out := map[Key]uint64{}
	for k, n := range c.n {
		was, there := before.n[k]
		if there && n > was && c.counts(k) {
			out[k] = n - was
		}
	}
	return out
}

// counts reports whether a counter counts lost packets.
func (c Counts) counts(k Key) bool {
	_, known := meaningOf(k)
	return known || k.Table == tableRule
}

// death describes the place that a counter belongs to.
func (c Counts) death(k Key, count int) Death {
	if r, is := c.rules[k]; is {
		return ofRule(k.Where, r, count, k.Where == c.home)
	}
	m, _ := meaningOf(k)
	d := Death{Where: k.Where, Kind: m.kind, Place: m.says, Reason: k.Name, Count: count, By: byCounter}
	if k.Of != "" {
		d.Place = fmt.Sprintf(m.says, k.Of)
		d.Reason = k.Name + " of " + k.Of
	}
	return d
}

// Uncounted returns the number of rules in these namespaces that drop packets but have no counter.
func (c Counts) Uncounted() int {
	n := 0
	for _, r := range c.rules {
		if !r.Counted {
			n++
		}
	}
	return n
}

// Deaths returns the places whose counters grew since an earlier moment. The packets may come from any sender. It
// sorts them by kind, with the most specific first, and then by growth.
func (c Counts) Deaths(before Counts) []Death {
	var out []Death
	for k, n := range c.Since(before) {
		out = append(out, c.death(k, int(n)))
	}
	slices.SortFunc(out, func(a, b Death) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Place, b.Place))
	})
	return rank(out)
}
