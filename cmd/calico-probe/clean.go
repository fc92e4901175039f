package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/probe"
)

// cleanLimit bounds the whole verb.
const cleanLimit = time.Minute

func (a *app) clean() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "clean", Short: "Remove what killed clients have left on the cluster", Args: noArguments,
		Long: `Lists every probe pod and clean-up job on the cluster and removes those whose run
is over. What a killed client leaves also goes by itself: its pod within a minute,
an ephemeral container's process within half of one.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), cleanLimit)
			defer cancel()
			return a.cleanUp(ctx, all)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also what may be in use by a run that is going on")
	a.flags.AddFlags(cmd.Flags())
	return cmd
}

func (a *app) cleanUp(ctx context.Context, all bool) error {
	config, err := a.restConfig()
	if err != nil {
		return err
	}
	client, err := injector.NewClient(config)
	if err != nil {
		return err
	}
	namespace := ""
	if n := a.flags.Namespace; n != nil {
		namespace = *n
	}
	found, err := client.Leftovers(ctx, namespace, cluster.CalicoPods)
	errs := []error{err}
	for _, l := range found {
		text := oneLine(l.String()) // with annotations of pods that anybody may have made
		switch {
		case l.Fixed:
			text = fmt.Sprintf("harmless, left alone: its process ends within %v of its client, and its entry goes when its pod is next replaced: ", probe.Silence) + text
		case l.InUse && !all:
			text = "in use, left alone (--all removes it): " + text
		default:
			if err := client.Remove(ctx, l); err != nil {
				errs = append(errs, err)
				continue
			}
			text = "removed " + text
		}
		if _, err := fmt.Fprintln(a.Out, text); err != nil {
			return err
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if len(found) == 0 {
		_, err = fmt.Fprintln(a.Out, "nothing to remove")
	}
	return err
}
