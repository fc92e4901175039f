// Package ask runs the firewall checks on a node. It reads the rules of each firewall, the NAT rules, the connection
// tracking table and the kernel's drop counters. Only the probe links it.
//
// Checks is the entry point: package suite/ask joins the checks of all subjects, and the probe runs them. The package
// draws no conclusions: package cause does, in the client.
package ask

import "github.com/calico-probe/calico-probe/probe"

// answers binds each check of this subject to the function that runs it. Each file adds its checks.
var answers probe.Answers

// Checks returns the checks of this subject, each bound to the function that runs it.
func Checks() []*probe.Check { return answers }
