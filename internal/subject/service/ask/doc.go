// Package ask answers the checks of Services: cluster addresses, node ports and kube-proxy, on the node. The probe
// alone links it.
package ask

import "github.com/calico-probe/calico-probe/probe"

// answers has each check of this subject with what answers it: every file adds its own.
var answers probe.Answers

// Checks are the checks of this subject, with what answers them.
func Checks() []*probe.Check { return answers }
