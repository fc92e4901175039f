// Package ask answers the checks of routes and routing rules, on the node. The probe alone links it.
package ask

import "github.com/calico-probe/calico-probe/probe"

// Checks are the checks of this subject, with what answers them.
func Checks() []*probe.Check {
	return []*probe.Check{
		routeBlocksCheck, routeCanReachCheck, routePodsCheck, routeRulesCheck, routeSpecialCheck, untrackedCheck,
		xfrmPoliciesCheck,
	}
}
