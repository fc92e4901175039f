package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const nameOptions = "options"

// options lists the flags of kubectl, which every verb that reads a cluster takes.
func (a *app) options() *cobra.Command {
	cmd := &cobra.Command{
		Use: nameOptions, Short: "List the flags of kubectl that choose a cluster and a user", Args: noArguments,
		Long: `Lists the flags that choose the cluster and the user, as kubectl has them. Every verb that
reads a cluster takes them, such as run, mesh, shell, capture and serve.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	a.flags.AddFlags(cmd.Flags())
	return cmd
}

// shortHelp has the help of each verb leave the flags of kubectl to the verb options, but for
// those that are typed every day. They are completed all the same.
func (a *app) shortHelp(root *cobra.Command) {
	usage := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		left := a.hideKubectls(cmd, true)
		err := usage(cmd)
		if a.hideKubectls(cmd, false); err != nil || !left {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStderr(), "\nUse '%s options' for the flags of kubectl, such as --kubeconfig and --as.\n",
			cmd.Root().DisplayName())
		return err
	})
}

// hideKubectls hides the flags of kubectl, or shows them again; it tells whether the verb has any.
func (a *app) hideKubectls(cmd *cobra.Command, hidden bool) (has bool) {
	kubectls := pflag.NewFlagSet("", pflag.ContinueOnError)
	a.flags.AddFlags(kubectls)
	kubectls.VisitAll(func(f *pflag.Flag) {
		own := cmd.Flags().Lookup(f.Name)
		if own == nil || cmd.Name() == nameOptions || slices.Contains([]string{"context", "namespace"}, f.Name) {
			return
		}
		own.Hidden, has = hidden, true
	})
	return has
}
