// Package tools defines the commands that a user types in a session, one file per tool: name, help and arguments.
// The client checks the arguments before it sends anything. The code that runs on the node is in package do, so the
// client does not link it:
//
//	typed words → Check (client) → probe.Call → Parse, run (probe, package do) → text and a Result
//
// All lists the tools. Like checks, tools change nothing on the node and print no secrets; sh is the exception.
//
//	var Uptime = &probe.Tool{
//		Name: "uptime", Short: "how long the node has been up", Doc: "...",
//		Check: check(ParseUptime),
//	}
//
// To add a tool, write its file here and one in package do, and add a line to All of both and to docs/shell.md.
package tools

import "github.com/calico-probe/calico-probe/probe"

// All returns every tool, in the order of help. These values have no function to run: see package do.
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
