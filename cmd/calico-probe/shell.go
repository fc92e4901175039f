package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/session"
)

const shellExample = `  # choose a node from a list, worst first, and examine it
  calico-probe shell

  # run two commands on one node, without a prompt
  calico-probe shell --node worker-3 -c 'ping 10.244.7.9; bird show protocols'

  # run the commands of a file; the exit code is that of the worst answer
  calico-probe shell --node worker-3 <questions

  # limit the root shell to the rights of kubectl's debug profile netadmin
  calico-probe shell --node worker-3 --debug-profile netadmin`

func (a *app) shell() *cobra.Command {
	o := &runFlags{app: a, Options: examine.Options{FailOn: examine.FailOnFail}}
	own := session.Options{Lookups: lookups()}
	cmd := &cobra.Command{
		Use: "shell [--node NODE]", Short: "Examine nodes interactively through a long-running probe", Example: shellExample,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.noContradiction(cmd); err != nil {
				return err
			}
			client, err := o.client()
			if err != nil {
				return err
			}
			client.Consent = o.agreement(nil) // the prompt owns the terminal
			if err := client.Resolve(cmd.Context(), &o.Options); err != nil {
				return err
			}
			own.Run, own.Scripted = o.Options, cmd.Flags().Changed("command")
			at := session.Terminal{In: a.In, Out: a.Out, ErrOut: a.ErrOut, Interrupts: a.interrupts}
			return session.New(client, own, at).Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	nodeFlag(f, &o.Node, "the node to start with (default: choose one)")
	f.StringVarP(&own.Commands, "command", "c", "", "run these commands, separated by ; or newlines, instead of a prompt")
	f.DurationVar(&own.Idle, "idle", 15*time.Minute, "end the session after this time without input at the prompt; 0 = never")
	f.StringVar(&own.Transcript, "transcript", "", "append the session to this file, as NDJSON for 'analyze': "+
		"commands as you type them, answers and output, with times; "+
		"for sh, only the command; do not type secrets")
	f.StringVar(&own.ToolboxImage, "toolbox-image", envOr("CALICO_PROBE_TOOLBOX_IMAGE", toolboxImage()),
		"image for 'sh' on a node without a shell (environment: CALICO_PROBE_TOOLBOX_IMAGE)")
	f.Var(debugProfile{&own.DebugProfile}, "debug-profile", "kubectl debug profile for the rights of the probe and of 'sh': "+
		strings.Join(injector.Profiles, ", ")+" (default: minimal rights for the probe, all rights for 'sh')")
	o.others(cmd)
	o.asking(cmd)
	f.Lookup("timeout").DefValue, o.Timeout = "4h0m0s", 4*time.Hour
	f.Lookup("timeout").Usage = "hard time limit of the session, which the API server also enforces"
	a.connecting(cmd)
	o.completions(cmd)
	completions(cmd, map[string]completer{"debug-profile": oneOf(injector.Profiles)})
	return cmd
}
