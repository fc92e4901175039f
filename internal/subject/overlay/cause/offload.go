package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// vxlanOffload is projectcalico/calico#3145.
func vxlanOffload(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, tunnel := range f.Of(overlay.OverlayTunnels.ID) {
		if tunnel.Status != probe.OK || tunnel.Facts[overlay.FactSumsLater] != true {
			continue
		}
		var lost, pings []diagnose.Finding
		passes := false
		for _, r := range f.Of(pod.PodTCP.ID) {
			way, _ := diagnose.Answer(f, route.RouteCanReach.ID, r.Target)
			ping, _ := diagnose.Answer(f, pod.PodPing.ID, r.Target)
			switch {
			case r.From != "" || way.Facts.Str(probe.FactInterface) != tunnel.Target:
			case r.Status == probe.OK:
				passes = true
			case r.Status == probe.Fail && diagnose.ReasonOf(r) == "timeout" && ping.Status == probe.OK:
				lost, pings = append(lost, r), append(pings, ping)
			}
		}
		if len(lost) == 0 || passes {
			continue
		}
		out = append(out, diagnose.Case{About: tunnel.Target, Family: diagnose.FamilyOf(lost[0]),
			Covers: evidence.OverPods(f),
			Args: map[string]diagnose.Arg{"device": diagnose.CheckedArg(tunnel.Target, diagnose.IsWord(tunnel.Target),
				"vxlan.calico")},
			Says: fmt.Sprintf("pods on other nodes answer pings from {node} through %s but accept no connection, and that device has checksum offload",
				tunnel.Target),
			For: append(diagnose.Suggests(lost), diagnose.Shows(pings[:1], []diagnose.Finding{tunnel})...)})
	}
	return out
}
