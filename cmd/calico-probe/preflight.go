package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/install"
	"github.com/calico-probe/calico-probe/internal/output"
	"github.com/calico-probe/calico-probe/internal/preflight"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
)

// preflightLimit is the time limit of the whole verb.
const preflightLimit = 30 * time.Second

func (a *app) preflight() *cobra.Command {
	o, out := &runFlags{app: a, Options: examine.Options{
		FailOn: examine.FailOnFail, Profile: string(probe.Standard), Timeout: 2 * time.Minute,
	}}, &output.Set{Family: families()}
	var methods []string
	cmd := &cobra.Command{
		Use: "preflight [--node NODE]", Short: "Check which access methods to a node would work", Args: noArguments,
		Long: `For each access method, checks whether you have the required rights, and whether policies and
quotas admit its objects. It uses a dry run, which does not create anything. It also checks
whether the image is on the node, and everything else that it can check without a probe. With
--via, every listed method must work. Without --via, one working method is enough. With
--via ssh or --ssh, it logs in to the node and logs out again.

Exit codes: 0 ready, 3 not ready, 5 a check had no answer, 2 wrong usage, 1 API unreachable.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			p, err := preflight.New(client, o.Options, methods)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), preflightLimit)
			defer cancel()
			if err := out.Open(a.Out); err != nil {
				return err
			}
			sink, err := out.Sink()
			if err != nil {
				return err
			}
			out.Until(ctx)
			p.Show = a.watching(out, "access methods")
			c, err := p.Do(ctx, sink)
			return out.Close(unfinished(out, c, err))
		},
	}
	f := cmd.Flags()
	nodeFlag(f, &o.Node, "the node to check (default: the first ready node)")
	f.StringSliceVar(&methods, "via", nil,
		"access methods that must work: auto (one method is enough), or a list of "+strings.Join(install.Names(), ", "))
	out.Flag(cmd, report.Formats())
	o.imaging(cmd)
	f.StringVar(&o.SSH, "ssh", "", "ssh destination, [USER@]HOST; {node} and {ip} are the node's name and address (default: the node's InternalIP)")
	f.StringVar(&o.SSHConfig, "ssh-config", "", "ssh configuration file instead of your own (ssh -F)")
	f.BoolVar(&o.Privileged, "privileged", false, "check whether the cluster admits a probe pod with all capabilities")
	a.connecting(cmd)
	words := func() []string { return append([]string{examine.ViaAuto}, install.Names()...) }
	completions(cmd, map[string]completer{"via": several(words)})
	o.completions(cmd)
	return cmd
}
