// Package ask runs the Service checks on a node. It connects to cluster addresses and node ports, and reads
// kube-proxy's health endpoint and rules. Only the probe links this package.
//
// Checks is the entry point. Package suite/ask combines the checks of all subjects, and the probe runs them. The
// package does not draw conclusions. Package cause does that in the client.
package ask

import "github.com/calico-probe/calico-probe/probe"

// answers binds each check of this subject to the function that runs it. Each file adds its own checks.
var answers probe.Answers

// Checks returns the checks of this subject, each bound to the function that runs it.
func Checks() []*probe.Check { return answers }
