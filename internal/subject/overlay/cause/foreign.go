package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
)

// foreignTunnel is a device of another CNI where Calico's tunnel should be.
func foreignTunnel(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Failed(overlay.OverlayTunnels.ID) {
		if device := r.Facts.Str(overlay.FactForeign); device != "" {
			out = append(out, diagnose.Case{
				About: device, Family: diagnose.FamilyOf(r), Args: map[string]diagnose.Arg{"device": diagnose.DeviceArg(device)},
				Says: fmt.Sprintf("a device of another CNI keeps %s of {node} from carrying anything: %s", r.Target, r.Saw),
				For:  diagnose.Proves([]diagnose.Finding{r}), Covers: evidence.OverPods(f),
			})
		}
	}
	return out
}
