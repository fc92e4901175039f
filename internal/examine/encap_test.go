package examine

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/probe"
)

// TestJoined requires that a packet that was never sent is not reported as lost.
func TestJoined(t *testing.T) {
	half := func(path string, s probe.Status) probe.Result {
		return probe.Found(s, "%s", path).With(overlay.FactPath, path).With(probe.FactFamily, 4)
	}
	got := joined(
		[]probe.Result{half("VXLAN", probe.OK), half("WireGuard", probe.Fail), half("BGP", probe.OK)},
		[]probe.Result{half("VXLAN", probe.Fail), half("WireGuard", probe.Fail),
			half("IPIP", probe.Info), half("Unheard", probe.OK)},
	)
	want := map[string]probe.Status{
		"VXLAN": probe.Fail, "WireGuard": probe.Fail, "BGP": probe.OK, "IPIP": probe.Unknown, "Unheard": probe.OK,
	}
	if len(got) != len(want) {
		t.Errorf("%d results: %v", len(got), got)
	}
	for _, r := range got {
		if path := r.Facts.Str(overlay.FactPath); r.Status != want[path] {
			t.Errorf("%s: %s, want %s", path, r.Status, want[path])
		}
	}
}
