// Package do runs the tools of package tools on the node, with one file for each tool. Its entry point is All, which
// combines each tool with its function.
//
// A tool's function receives the job and the arguments. It writes text to the job while it runs, stops when its
// context ends, and returns a result:
//
//	func uptime(ctx context.Context, j *probe.Job, a *tools.UptimeArgs) probe.Result {
//		j.Say("up for %v", up)
//		return probe.Found(probe.OK, "up for %v", up)
//	}
//
// Package do does not parse arguments or print help. Package tools does that, and the client also links it.
package do

import (
	"context"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// All returns every tool and the function that runs it, in the order of tools.All.
func All() []*probe.Tool {
	return []*probe.Tool{
		by(tools.Ping, tools.ParsePing, ping),
		by(tools.Dial, tools.ParseDial, dial),
		by(tools.DNS, tools.ParseDNS, lookUp),
		by(tools.Route, tools.ParseRoute, showRoutes),
		by(tools.Links, tools.ParseLinks, listLinks),
		by(tools.Neigh, tools.ParseNeigh, listNeighbours),
		by(tools.Capture, tools.ParseCapture, capturePackets),
		by(tools.Conns, tools.ParseConns, listConns),
		by(tools.Drops, tools.ParseDrops, findDrops),
		by(tools.BIRD, tools.ParseBIRD, askBIRD),
		by(tools.PS, tools.ParsePS, listRuntime),
		by(tools.Logs, tools.ParseLogs, readLog),
		by(tools.Sh, tools.ParseSh, runShell),
	}
}

// by combines a tool with the function that runs it with parsed arguments. If by were inlined, the probe would contain
// a copy of it for each tool.
//
//go:noinline
func by[A any](t *probe.Tool, parse func([]string) (A, error),
	run func(context.Context, *probe.Job, A) probe.Result) *probe.Tool {
	return t.By(func(args []string) (probe.ToolFunc, error) {
		a, err := parse(args)
		return func(ctx context.Context, j *probe.Job) probe.Result { return run(ctx, j, a) }, err
	})
}
