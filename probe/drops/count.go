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
)

// Space is a network namespace that is sent from or counted in.
type Space struct {
	Name string      // Node, or a pod's
	Host *probe.Host // of this process
	View *netns.View // nil = that which this process is in
}

// Do runs f inside, on a thread of its own where that is not where this process is: f starts no goroutine that opens
// something.
func (s Space) Do(f func(h *probe.Host) error) error {
	if s.View == nil {
		return f(s.Host)
	}
	return s.View.Do(f)
}

// Key is one counter in one network namespace.
type Key struct{ Where, Table, Of, Name string }

// tableRule is the table of a Key that is a rule's.
const tableRule = "rule"

// Counts is what was counted at one moment.
type Counts struct {
	home  string // the first namespace that was counted in
	n     map[Key]uint64
	rules map[Key]kernel.Refusal
}

// Count reads all counters in some namespaces, the node's first: only what is found there is taken for Calico's. The
// error says what could not be read, beside what could.
func Count(in []Space) (Counts, error) {
	c := Counts{n: map[Key]uint64{}, rules: map[Key]kernel.Refusal{}}
	if len(in) > 0 {
		c.home = in[0].Name
	}
	var errs []error
	for _, s := range in {
		err := s.Do(func(h *probe.Host) error {
			tallies, err := kernel.Tallies(h)
			for _, t := range tallies {
				if t.Table == kernel.TallySoftnet && s.Name != c.home { // of the whole machine
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

// Since is by how much each counter of lost packets grew since an earlier moment. One that was not there then, or is
// smaller now, says nothing.
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

// counts tells whether what a counter counts is lost.
func (c Counts) counts(k Key) bool {
	_, known := meaningOf(k)
	return known || k.Table == tableRule
}

// death is the place that a counter is of.
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

// Uncounted are rules that drop and have no counter, of those namespaces.
func (c Counts) Uncounted() int {
	n := 0
	for _, r := range c.rules {
		if !r.Counted {
			n++
		}
	}
	return n
}

// Deaths are the places whose counters grew since an earlier moment, of all packets: what tells the most
// first, and of the same kind what grew the most.
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
