package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/fleet"
	"github.com/calico-probe/calico-probe/internal/output"
	"github.com/calico-probe/calico-probe/internal/page"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

const meshExample = `  # find failing paths between nodes, and what these paths have in common
  calico-probe mesh

  # also test with full-size packets
  calico-probe mesh --profile deep

  # keep testing, and show the worst paths first on the full screen
  calico-probe mesh --watch -l topology.kubernetes.io/zone=eu-1a

  # test the paths between the nodes of two zones
  calico-probe mesh -l 'topology.kubernetes.io/zone in (eu-1a,eu-1b)'`

// meshLimit is the maximum duration of a mesh, which has two rounds of probes on all nodes.
const meshLimit = 5 * time.Minute

func (a *app) mesh() *cobra.Command {
	o, several, out := &runFlags{app: a}, &severalNodes{}, &output.Set{}
	var racks []string
	watch := &watchFlags{}
	cmd := &cobra.Command{
		Use: "mesh", Short: "Test the paths between nodes, and show what failing paths have in common", Example: meshExample,
		Long: `Places a probe on each node. The probe pings other nodes and a pod on each of these nodes, opens
TCP connections to both, and reports its node's BGP sessions. In a cluster of fewer than 60
nodes, the mesh tests every pair of nodes in both directions. In a larger cluster, each node
tests three other nodes in its zone and two nodes in other zones. A second round tests more paths
around the failing paths. The report names what failing paths have in common: a node, a rack, a
zone, two zones or a pair.

With --watch, probes on at most 48 nodes keep pinging each other and each other's pods until you
press q or Ctrl-C, or until --for ends. The exit code is that of the last round: 3 if a path
failed, 5 if a node did not report.

` + exitCodes(),
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := watch.validate(cmd.Flags()); err != nil {
				return err
			}
			opts := fleet.MeshOptions{RackLabels: racks,
				Options: fleet.Options{Options: o.Options, Nodes: several.named, Select: several.selector}}
			if watch.on {
				return o.watchMesh(cmd, opts, watch)
			}
			return o.mesh(cmd, opts, out)
		},
	}
	f := cmd.Flags()
	several.choosing(f)
	out.Flag(cmd, []report.Format{{Name: "table", For: "for people: the result, and the number of failing paths by zone"},
		{Name: "json", For: "one document, with every path"}, {Name: "yaml", For: "the same as json"},
		{Name: "html", For: "one page, from a map of the zones down to each pair"}})
	f.StringVar(&o.Profile, "profile", string(probe.Standard), "how much to test: standard, or deep to also send full-size packets")
	f.StringSliceVar(&racks, "rack-label", fleet.RackLabels(), "the node label that names the rack; if you pass several labels, each node uses the first one that it has")
	watch.flags(f)
	f.StringVar(&o.Reason, "reason", "", "reason for this run, recorded on created objects for auditors")
	o.imaging(cmd)
	o.consenting(f)
	f.DurationVar(&o.Timeout, "timeout", meshLimit, "time limit of the whole run")
	a.connecting(cmd)
	completions(cmd, map[string]completer{"node": o.nodeNames, "profile": oneOf(meshProfiles())})
	return cmd
}

// meshProfiles are the profiles that a mesh supports.
func meshProfiles() []string { return []string{string(probe.Standard), string(probe.Deep)} }

// mesh starts one run with the settings from the flags.
func (o *runFlags) mesh(cmd *cobra.Command, opts fleet.MeshOptions, out *output.Set) error {
	client, err := o.client()
	if err != nil {
		return err
	}
	if !slices.Contains(meshProfiles(), o.Profile) {
		return ui.BadUsage("unknown profile %q: mesh takes --profile %s", o.Profile, strings.Join(meshProfiles(), " or "))
	}
	run, err := fleet.NewMesh(client, opts)
	if err != nil {
		return err
	}
	if err := out.Open(o.Out); err != nil {
		return err
	}
	ctx, cancel := o.Deadline(cmd.Context())
	defer cancel()
	out.Until(ctx)
	out.Begin()
	run.Show = o.watching(out, "nodes")
	found, err := run.Mesh(ctx)
	if over, late := errors.AsType[examine.TimeoutError](context.Cause(ctx)); late && found == nil {
		err = over
	}
	each := out.Each
	if found == nil { // the files are already truncated; an empty file would look healthy
		found, each = run.Unfinished(whyUnfinished(err)), out.EachFile
	}
	written := each(func(to *output.Place) error {
		switch to.Name {
		case "json":
			return report.WriteJSON(to, "  ", found)
		case "yaml":
			return report.WriteYAML(to, found)
		case "html":
			return page.Write(to, found.Page())
		}
		return found.Write(to, to.Width())
	})
	if written != nil {
		err = written
	}
	return out.Close(err)
}
