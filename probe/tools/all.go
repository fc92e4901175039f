// Package tools defines the commands that a user types in a session, with one file for each tool. A file contains
// the tool's name, help text and arguments. The client checks the arguments before it sends anything. The code that
// runs on the node is in package do, so the client does not link it:
//
//	typed words → Check (client) → probe.Call → Parse, run (probe, package do) → text and a Result
//
// All lists the tools. Like checks, tools do not change the node and do not print secrets. The only exception is sh.
//
//	var Uptime = &probe.Tool{
//		Name: "uptime", Short: "how long the node has been up", Doc: "...",
//		Check: check(ParseUptime),
//	}
//
// To add a tool, add a file to this package and to package do. Then add a line to All in both
// packages, and to docs/shell.md.
package tools

import "github.com/calico-probe/calico-probe/probe"

// All returns every tool, in the order in which help lists them. These values have no function to
// run. The functions are in package do.
func All() []*probe.Tool {
	return []*probe.Tool{
		Ping,
		Dial,
		DNS,
		Route,
		Links,
		Neigh,
		Capture,
		Conns,
		Drops,
		BIRD,
		PS,
		Logs,
		Sh,
	}
}
