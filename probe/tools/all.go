// Package tools has what a user asks for by hand in a session, one file a tool. Like
// the checks they change nothing on the node, and never print what is secret there.
package tools

import "github.com/calico-probe/calico-probe/probe"

// All is every tool, in the order help lists them.
func All() []*probe.Tool {
	return []*probe.Tool{
		Ping,
		Dial,
		DNS,
		Route,
		Links,
		Neigh,
		Conns,
		Bird,
		PS,
		Logs,
		Sh,
	}
}
