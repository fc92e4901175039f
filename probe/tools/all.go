// Package tools has the words of what a user types in a session, one file a tool: name, help, and the arguments. The
// client checks these before anything is sent, and so links nothing of what runs on the node, which package do has:
//
//	typed words → Check (client) → probe.Call → Parse, run (probe, package do) → text and a Result
//
// Like the checks, tools change nothing on the node, and never print what is secret there.
//
//	var Uptime = &probe.Tool{
//		Name: "uptime", Short: "how long the node has been up", Doc: "...",
//		Check: check(ParseUptime),
//	}
//
// To add one: its file here, a line in All, its file and a line in package do, a line in docs/shell.md.
package tools

import "github.com/calico-probe/calico-probe/probe"

// All is every tool, in the order help lists them. None has what runs it: see package do.
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
