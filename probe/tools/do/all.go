// Package do runs the tools of package tools on the node, one file per tool. Its entry point is All, which joins each
// tool with its function.
//
// A tool's function receives the job and the arguments, writes text to the job as it runs, honours its context, and
// returns a result:
//
//	func uptime(ctx context.Context, j *probe.Job, a *tools.UptimeArgs) probe.Result {
//		j.Say("up for %v", up)
//		return probe.Found(probe.OK, "up for %v", up)
//	}
//
// It parses no arguments and prints no help: that is package tools, which the client links too.
package do

import (
	"context"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// All returns every tool with the function that runs it, in the order of tools.All.
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

// by joins a tool with the function that runs it with the parsed arguments. Inlined, the probe would have a copy of it
// for each tool.
//
//go:noinline
func by[A any](t *probe.Tool, parse func([]string) (A, error),
	run func(context.Context, *probe.Job, A) probe.Result) *probe.Tool {
	return t.By(func(args []string) (probe.ToolFunc, error) {
		a, err := parse(args)
		return func(ctx context.Context, j *probe.Job) probe.Result { return run(ctx, j, a) }, err
	})
}
