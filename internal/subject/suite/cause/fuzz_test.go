package cause

import (
	"maps"
	"os"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/compare"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/nightfile"
	"github.com/calico-probe/calico-probe/probe"
)

// nights are the findings of every recorded run.
func nights(t testing.TB) []diagnose.Findings {
	t.Helper()
	files := nightfile.All()
	if len(files) == 0 {
		t.Fatal("no recorded runs")
	}
	var out []diagnose.Findings
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range txtar.Parse(b).Files {
			if section.Name == "stream" {
				out = append(out, read(t, section.Data))
			}
		}
	}
	return out
}

// oddTexts are what a node may say where a rule expects words, a name, an address or a number.
var oddTexts = []string{"", " ", "\t\u00a0", "x", "a b c", "10.0.0.1", "fe80::1%eth0", "::/0", "-1",
	"99999999999999999999", "{node}", "$(reboot)", "tcp 10.0.0.1:179", "node-a pod default/web", "\xff"}

// oddValues are values of facts as JSON has them.
var oddValues = []any{nil, true, false, -1.0, 0.0, 1e308, []any{}, []any{nil}, []any{""}, []any{"a", 1.0, []any{}},
	map[string]any{}, map[string]any{"": nil}, map[string]any{"a": "b"}}

// mutator changes findings as a script of bytes says.
type mutator struct {
	script []byte
	all    []diagnose.Findings
	facts  []probe.Fact // every fact that a recorded run has
}

// next is a number below n.
func (m *mutator) next(n int) int {
	if len(m.script) == 0 || n == 0 {
		return 0
	}
	b := int(m.script[0])
	m.script = m.script[1:]
	if n > 256 && len(m.script) > 0 {
		b = b<<8 | int(m.script[0])
		m.script = m.script[1:]
	}
	return b % n
}

func (m *mutator) text() string { return oddTexts[m.next(len(oddTexts))] }

// value is odd, or another run's value of the same fact.
func (m *mutator) value(key probe.Fact) any {
	switch m.next(3) {
	case 0:
		return m.text()
	case 1:
		return oddValues[m.next(len(oddValues))]
	}
	f := m.all[m.next(len(m.all))]
	for _, r := range f.All {
		if v, has := r.Facts[key]; has {
			return v
		}
	}
	return nil
}

// finding changes one finding.
func (m *mutator) finding(f *diagnose.Findings) {
	if len(f.All) == 0 {
		return
	}
	i := m.next(len(f.All))
	r := &f.All[i]
	switch m.next(9) {
	case 0:
		r.Target = m.text()
	case 1:
		r.Target = f.All[m.next(len(f.All))].Target
	case 2:
		r.Status = probe.Statuses()[m.next(len(probe.Statuses()))]
	case 3:
		r.From = m.text()
	case 4:
		r.Node = m.text()
	case 5:
		r.Saw = m.text()
	case 6:
		f.All = slices.Delete(f.All, i, i+1)
	case 7:
		other := m.all[m.next(len(m.all))]
		if len(other.All) > 0 {
			f.All = append(f.All, other.All[m.next(len(other.All))])
		}
	default:
		key := m.facts[m.next(len(m.facts))]
		if own := slices.Sorted(maps.Keys(r.Facts)); len(own) > 0 && m.next(4) > 0 {
			key = own[m.next(len(own))]
		}
		r.Facts = maps.Clone(r.Facts)
		if r.Facts == nil {
			r.Facts = probe.Facts{}
		}
		r.Facts[key] = m.value(key)
	}
}

// FuzzExplain changes recorded runs as a compromised node could. No rule may crash, what comes of it is bounded, and
// the same findings give the same causes.
func FuzzExplain(f *testing.F) {
	all := nights(f)
	seen := map[probe.Fact]bool{}
	for _, night := range all {
		for _, r := range night.All {
			for key := range r.Facts {
				seen[key] = true
			}
		}
	}
	facts := slices.Sorted(maps.Keys(seen))
	f.Add(uint16(0), []byte{0, 0, 1})
	f.Add(uint16(200), []byte{3, 8, 1, 7, 1, 2, 2, 2, 0, 9, 6})
	rules := All()
	f.Fuzz(func(t *testing.T, night uint16, script []byte) {
		of := all[int(night)%len(all)]
		m := &mutator{script: script, all: all, facts: facts}
		g := diagnose.Findings{Node: of.Node, All: slices.Clone(of.All)}
		for range min(20, 1+len(script)/3) {
			m.finding(&g)
		}
		d := diagnose.Explain(g, rules)
		for _, why := range d.Failed {
			t.Error(why)
		}
		if n := len(d.Causes); n > diagnose.MostCauses {
			t.Errorf("%d causes", n)
		}
		if again := diagnose.Explain(g, rules); told(again, true) != told(d, true) {
			t.Errorf("twice the same findings:\n%s\nand\n%s", told(d, true), told(again, true))
		}
		compare.Nodes(g)
	})
}
