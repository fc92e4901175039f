package logs

import (
	"slices"
	"testing"
)

// TestSignaturesHaveSources checks that every signature has a source.
func TestSignaturesHaveSources(t *testing.T) {
	t.Parallel()
	sources := map[string][]string{} // by ID
	add := func(id, source string) { sources[id] = append(sources[id], source) }
	for _, s := range signatures {
		add(s.ID, s.Source)
	}
	for _, s := range slices.Concat(calicoRepeats, typhaRepeats) {
		add(s.ID, s.Source)
	}
	for _, s := range services {
		add(s.ID, s.Source)
	}
	for _, s := range kernelSignatures {
		add(s.ID, s.Source)
	}
	for component, all := range complaints {
		for _, c := range all {
			for _, s := range c.Signatures {
				add(component+" "+s.ID, s.Source)
			}
		}
	}
	for component, e := range endings {
		for _, s := range slices.Concat(e.Signatures, anyEnding) {
			add(component+" "+s.ID, s.Source)
		}
	}
	if len(sources) < 70 {
		t.Errorf("only %d signatures", len(sources))
	}
	for id, all := range sources {
		for _, source := range all {
			if source == "" {
				t.Errorf("%s: no source of such a line", id)
			}
		}
	}
}
