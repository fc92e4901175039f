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

  # one node; two questions, without a prompt
  calico-probe shell --node worker-3 -c 'ping 10.244.7.9; bird show protocols'

  # the same from a file; the exit code is that of the worst answer
  calico-probe shell --node worker-3 <questions

  # a root shell with the rights of kubectl's debug profile for networks, instead of all
  calico-probe shell --node worker-3 --debug-profile netadmin`

func (a *app) shell() *cobra.Command {
	o := &runFlags{app: a, Options: examine.Options{FailOn: examine.FailOnFail}}
	own := session.Options{Lookups: lookups()}
	cmd := &cobra.Command{
		Use: "shell [--node NODE]", Short: "Look at nodes by hand, through a probe that stays", Example: shellExample,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.noContradiction(cmd); err != nil {
				return err
			}
			client, err := o.client()
			if err != nil {
				return err
			}
			client.Consent = o.agreement(nil) // the prompt has the terminal
			if err := client.Resolve(cmd.Context(), &o.Options); err != nil {
				return err
			}
			own.Run, own.Scripted = o.Options, cmd.Flags().Changed("command")
			at := session.Terminal{In: a.In, Out: a.Out, ErrOut: a.ErrOut, Interrupts: a.interrupts}
			return session.New(client, own, at).Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	nodeFlag(f, &o.Node, "the node to begin with (default: choose one)")
	f.StringVarP(&own.Commands, "command", "c", "", "run these commands, separated by ; or new lines, instead of a prompt")
	f.DurationVar(&own.Idle, "idle", 15*time.Minute, "end the session when nothing was typed at the prompt for so long; 0 = never")
	f.StringVar(&own.Transcript, "transcript", "", "record the session in this file, new or a transcript to go on with: "+
		"commands as they are typed, so type no secrets in them, answers and output, with times "+
		"(NDJSON, for 'analyze'); of sh only the command")
	f.StringVar(&own.ToolboxImage, "toolbox-image", envOr("CALICO_PROBE_TOOLBOX_IMAGE", toolboxImage()),
		"image whose shell 'sh' takes on a node that has none (environment: CALICO_PROBE_TOOLBOX_IMAGE)")
	f.Var(debugProfile{&own.DebugProfile}, "debug-profile", "rights of the probe and of 'sh', as kubectl debug has them: "+
		strings.Join(injector.Profiles, ", ")+" (default: the few that the probe needs, and all for 'sh')")
	o.others(cmd)
	o.asking(cmd)
	f.Lookup("timeout").DefValue, o.Timeout = "4h0m0s", 4*time.Hour
	f.Lookup("timeout").Usage = "hard end of the session, also on the server's side"
	a.connecting(cmd)
	o.completions(cmd)
	completions(cmd, map[string]completer{"debug-profile": oneOf(injector.Profiles)})
	return cmd
}
