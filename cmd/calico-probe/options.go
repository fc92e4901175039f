package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const nameOptions = "options"

// options lists kubectl's flags, which every verb that reads a cluster has.
func (a *app) options() *cobra.Command {
	cmd := &cobra.Command{
		Use: nameOptions, Short: "List kubectl's flags for the cluster and the user", Args: noArguments,
		Long: `Lists kubectl's flags for the cluster and the user. Every verb that reads a cluster
accepts these flags, such as run, mesh, shell, capture and serve.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	a.flags.AddFlags(cmd.Flags())
	return cmd
}

// shortHelp hides kubectl's flags from each verb's help, except the common ones. The verb options lists all of
// kubectl's flags, and completion still offers them.
func (a *app) shortHelp(root *cobra.Command) {
	usage := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		left := a.hideKubectls(cmd, true)
		err := usage(cmd)
		if a.hideKubectls(cmd, false); err != nil || !left {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStderr(), "\nUse '%s options' to list kubectl's flags, such as --kubeconfig and --as.\n",
			cmd.Root().DisplayName())
		return err
	})
}

// hideKubectls hides kubectl's flags or shows them again, and reports whether the verb has any.
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
