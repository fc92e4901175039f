// Package tools has what a user asks for by hand in a session, one file a tool. Like
// the checks they change nothing on the node, and never print what is secret there.
//
// A tool is a value. Parse reads its arguments, on the client too, and returns what runs on the node:
//
//	var uptimeTool = &probe.Tool{
//		Name: "uptime", Short: "how long the node has been up", Doc: "...",
//		Parse: func(args []string) (probe.ToolFunc, error) {
//			if len(args) > 0 {
//				return nil, errors.New("uptime takes no arguments")
//			}
//			return func(ctx context.Context, j *probe.Job) probe.Result {
//				j.Say("up for %v", up)
//				return probe.Found(probe.OK, "up for %v", up)
//			}, nil
//		},
//	}
//
// To add one: its file, its test, a line in All, a line in docs/shell.md.
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
		Capture,
		connsTool,
		Drops,
		birdTool,
		psTool,
		Logs,
		Sh,
	}
}
