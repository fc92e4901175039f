package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/docs/schema"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/agents"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/gate"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// mcpOptions are the flags of the mcp verb.
type mcpOptions struct {
	*runFlags
	client  *examine.Client
	dirs    []string // folders of runbooks
	probes  bool
	offline bool
	listen  string
	access  gate.Access
	plain   bool // accept tokens without TLS
	front   agents.Front
}

const mcpExample = `  # let an agent judge nodes through the API, without creating anything
  calico-probe mcp

  # also let the agent place probes on nodes
  calico-probe mcp --allow-probes

  # serve only saved runs, without a cluster
  calico-probe mcp --offline good.ndjson night.ndjson

  # serve HTTP, for agents on other machines
  calico-probe mcp --listen 127.0.0.1:8090 --token-file token`

func (a *app) mcp() *cobra.Command {
	o := &mcpOptions{runFlags: &runFlags{app: a, Options: examine.Options{
		FailOn: examine.FailOnFail, Profile: string(probe.Standard), Timeout: 2 * time.Minute, Baselines: 2,
	}}}
	cmd := &cobra.Command{
		Use: "mcp [FILE...]", Short: "Serve tools for an agent over the Model Context Protocol", Example: mcpExample,
		Long: `Serves an agent (a program that speaks MCP) on stdin and stdout, or over HTTP at ` + agents.Path + `.
The tools judge all nodes, examine one node, explain causes and checks, compare runs and show
runbooks. They never repair anything, run a command or open a shell. Without --allow-probes
they do not create anything. With --allow-probes, a client that can prompt its user must do so
before the server creates objects.
FILEs are saved runs (-o ndjson or json) that the tools can use.

Every answer marks content from nodes, pods and API objects as data. The server logs each
call to stderr.`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.serve(cmd.Context(), args) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.probes, "allow-probes", false, "let the agent place read-only probes on nodes, with the access methods of --via")
	f.BoolVar(&o.offline, "offline", false, "do not contact a cluster: use only the given saved runs")
	f.StringVar(&o.listen, "listen", "", "serve HTTP at this address, HOST:PORT, instead of stdin and stdout")
	f.StringVar(&o.access.TokenFile, "token-file", "", "with --listen: file with the accepted bearer tokens, one per line")
	f.StringVar(&o.access.Cert, "tls-cert", "", "with --listen: the server's certificate")
	f.StringVar(&o.access.Key, "tls-key", "", "with --listen: the key of --tls-cert")
	f.BoolVar(&o.plain, "insecure-http", false, "with --listen: accept tokens without TLS on a non-loopback address")
	f.StringSliceVar(&o.front.Hosts, "allow-host", []string{"localhost", "127.0.0.1", "::1", "[::1]"},
		"with --listen: allowed Host headers; other requests are rejected")
	f.StringSliceVar(&o.front.Origins, "allow-origin", nil, "with --listen: web origins that may send requests, as https://HOST (default: none)")
	folders(cmd, &o.dirs)
	o.asking(cmd)
	f.Lookup("via").Usage = viaTried + examine.ViaUsage(injector.MethodKubelet)
	reason := f.Lookup("reason")
	reason.DefValue, o.Reason = "an agent's question", "an agent's question"
	f.Lookup("timeout").Usage = "time limit of each examination"
	a.connecting(cmd)
	o.completions(cmd)
	return cmd
}

// serve answers requests until the client disconnects or the program is stopped.
func (o *mcpOptions) serve(ctx context.Context, files []string) error {
	if err := o.check(files); err != nil {
		return err
	}
	world, err := o.world()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(o.ErrOut, nil))
	server, err := agents.New(world, log)
	if err != nil {
		return err
	}
	if err := o.keep(server, files); err != nil {
		return err
	}
	if o.listen == "" {
		return server.Stdio(ctx, io.NopCloser(o.In), o.Out)
	}
	keeper, err := gate.Open(o.access, log)
	if err != nil {
		return ui.BadUsage("%w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	log.Info("serving", "address", l.Addr().String(), "path", agents.Path, "version", probe.Release)
	return server.HTTP(ctx, l, keeper, o.front)
}

// check rejects invalid flags of mcp.
func (o *mcpOptions) check(files []string) error {
	switch {
	case o.offline && o.probes:
		return ui.BadUsage("--allow-probes does not work with --offline, which does not contact nodes: use one of them")
	case injector.AccessOf(o.Via).AsRoot:
		return ui.BadUsage("--via kubelet is only for people, not for agents: use another access method")
	case o.offline && len(files) == 0:
		return ui.BadUsage("--offline takes saved run files")
	case o.listen == "" && (o.access != gate.Access{} || o.plain || len(o.front.Origins) > 0):
		return ui.BadUsage("--token-file, --tls-cert, --tls-key, --insecure-http and --allow-origin need --listen")
	case o.listen == "":
	case o.access.TokenFile == "":
		return ui.BadUsage("no authentication is configured: set --token-file")
	case o.access.Cert == "" && !o.plain && !isLoopback(o.listen):
		return ui.BadUsage("tokens would be sent to %s without TLS, readable on the network: "+
			"set --tls-cert and --tls-key, --listen on 127.0.0.1, or add --insecure-http", o.listen)
	default:
		if _, _, err := listened("--listen", o.listen); err != nil {
			return err
		}
	}
	return o.Validate()
}

// keep loads the saved runs into the server.
func (o *mcpOptions) keep(server *agents.Server, files []string) error {
	runs, _, err := o.loadRuns(files)
	if err != nil {
		return err
	}
	for _, run := range runs {
		var docs []report.Document
		c, err := examine.Replay(run.Run, report.Collect(&docs))
		if err == nil {
			err = concluded(c.Conclude())
		}
		if err != nil {
			return err
		}
		for _, doc := range docs {
			ui.Say(o.ErrOut, "%s is %s, node %s", server.Keep(run.Run, doc), source(run.file), probe.Line(doc.Node))
		}
	}
	return nil
}

// mcpSchemas returns the result schema of each tool.
func mcpSchemas() (map[string][]byte, error) {
	out := map[string][]byte{}
	for tool, name := range map[string]string{"run": "report", "triage": "fleet"} {
		b, err := schema.Of(name)
		if err != nil {
			return nil, err
		}
		out[tool] = b
	}
	return out, nil
}

// explained returns the output of explain for a check or a cause.
func explained(id string) (string, error) {
	var b strings.Builder
	err := explainID(&b, cause.All(), id)
	return b.String(), err
}

// readable returns the runbooks without errors.
func readable(dirs []string) ([]runbook.Item, error) {
	items, err := library(dirs)
	if err != nil {
		return nil, err
	}
	var out []runbook.Item
	for _, it := range items {
		if it.Err == nil {
			out = append(out, it)
		}
	}
	return out, nil
}
