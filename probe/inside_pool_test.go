package probe

import "testing"

// TestApart checks that the first two pods to enter are from two IP pools, or else from two namespaces.
func TestApart(t *testing.T) {
	t.Parallel()
	pod := func(name, pool string) Target {
		return Target{Kind: KindLocal, Name: name, Attrs: map[string]string{AttrPool: pool}}
	}
	for name, c := range map[string]struct {
		of   []Target
		want string
	}{
		"pools":      {[]Target{pod("a/1", "p"), pod("b/1", "p"), pod("a/2", "q")}, "a/2"},
		"namespaces": {[]Target{pod("a/1", "p"), pod("a/2", "p"), pod("b/1", "p")}, "b/1"},
		"neither":    {[]Target{pod("a/1", ""), pod("a/2", "")}, "a/2"},
	} {
		if got := apart(c.of); len(got) != len(c.of) || got[1].Name != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := apart(nil); got != nil {
		t.Errorf("of none: %v", got)
	}
}
