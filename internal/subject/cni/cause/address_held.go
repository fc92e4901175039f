package cause

import (
	"fmt"
	"regexp"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// heldBy is the interface by which the route leads that is in the way, as Calico's plugin writes it.
var heldBy = regexp.MustCompile(`already exists for an interface other than .*Iface: ([\w.@-]{1,15})\)`)

// podAddressHeld is a new pod whose address another interface of the node has a route for.
func podAddressHeld(f diagnose.Findings) []diagnose.Case {
	pods := diagnose.Keep(evidence.WaitingPods(f, facts.StartsCNI), func(r diagnose.Finding) bool {
		return r.Facts.Str(facts.Obstacle) == facts.ObstacleAddressHeld
	})
	if len(pods) == 0 {
		return nil
	}
	says, address, device := pods[0].Facts.Str(facts.Message), pods[0].Facts.Str(facts.ObstacleAt), ""
	if m := heldBy.FindStringSubmatch(says); m != nil {
		device = m[1]
	}
	c := diagnose.Case{
		About: address, For: evidence.Said(pods), Covers: evidence.PodsUnconnected,
		Args: map[string]diagnose.Arg{"address": diagnose.AddressArg(address), "device": diagnose.DeviceArg(device)},
		Says: fmt.Sprintf("IPAM gives %s to a new pod of {node}, and a route to it leads by another interface", address),
	}
	if device != "" {
		c.Says += " (" + device + ")"
	}
	c.Says += ": " + says
	return []diagnose.Case{c}
}
