package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/session"
)

const shellExample = `  # choose a node, the worst first, and look around
  calico-probe shell

  # one node; two commands, without a prompt
  calico-probe shell --node worker-3 -c 'ping 10.244.7.9; bird show protocols'

  # the same from a file; the exit code is that of the worst answer
  calico-probe shell --node worker-3 <questions

  # a root shell with the rights of kubectl's debug profile netadmin, instead of all
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
	f.StringVar(&own.Transcript, "transcript", "", "record the session in this file (appends to an existing transcript): "+
		"commands as typed (so type no secrets), answers and output, with times "+
		"(NDJSON, for 'analyze'); of sh only the command")
	f.StringVar(&own.ToolboxImage, "toolbox-image", envOr("CALICO_PROBE_TOOLBOX_IMAGE", toolboxImage()),
		"image with the shell for 'sh' on a node without one (environment: CALICO_PROBE_TOOLBOX_IMAGE)")
	f.Var(debugProfile{&own.DebugProfile}, "debug-profile", "rights of the probe and of 'sh', with the profiles of kubectl debug: "+
		strings.Join(injector.Profiles, ", ")+" (default: the few that the probe needs, and all for 'sh')")
	o.others(cmd)
	o.asking(cmd)
	f.Lookup("timeout").DefValue, o.Timeout = "4h0m0s", 4*time.Hour
	f.Lookup("timeout").Usage = "hard limit of the session, enforced on the server too"
	a.connecting(cmd)
	o.completions(cmd)
	completions(cmd, map[string]completer{"debug-profile": oneOf(injector.Profiles)})
	return cmd
}
