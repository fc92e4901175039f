package clustertest

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// WantFirst checks the first result's status and a part of its sentence.
func WantFirst(t *testing.T, got []probe.Result, s probe.Status, saw string) {
	t.Helper()
	if len(got) == 0 || got[0].Status != s || !strings.Contains(got[0].Saw, saw) {
		t.Errorf("got %v, want first %s with %q", got, s, saw)
	}
}

// WantHistory requires one result that ends with this text and is marked as history. If end is "", there must be no
// such result.
func WantHistory(t *testing.T, got []probe.Result, end string) {
	t.Helper()
	var old []string
	for _, r := range got {
		if r.Facts[probe.FactHistory] == true {
			old = append(old, r.Saw)
		}
	}
	want := map[bool]int{true: 0, false: 1}[end == ""]
	if len(old) != want || want == 1 && (!strings.HasPrefix(old[0], "history: ") || !strings.HasSuffix(old[0], end)) {
		t.Errorf("history %q, want %q", old, end)
	}
}
