package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/examine"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/probe"
)

// completer gives what may stand where something is typed.
type completer = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// completions gives flags of a command what a shell completes them with.
func completions(cmd *cobra.Command, of map[string]completer) {
	for flag, f := range of {
		_, had := cmd.GetFlagCompletionFunc(flag)
		if had || cmd.Flags().Lookup(flag) == nil { // it has values of its own, or is another verb's
			continue
		}
		// What is left cannot fail; if it did, every test of the command would meet it.
		if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
			panic(err)
		}
	}
}

// oneOf completes one of the values.
func oneOf(values []string) completer {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

// several completes the last item of a list that commas separate, with a value that is
// not in it yet. Another comma may follow, so no space does.
func several(values func() []string) completer {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		head := typed[:strings.LastIndex(typed, ",")+1]
		had := strings.Split(head, ",")
		var out []string
		for _, v := range values() {
			if !slices.Contains(had, v) {
				out = append(out, head+v)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// viaMethods completes --via: one word, or after a comma what may stand in a list.
func viaMethods(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if strings.Contains(typed, ",") {
		return several(injector.FallbackNames)(cmd, args, typed)
	}
	words := append([]string{examine.ViaAuto}, injector.MethodNames()...)
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// selectors are what --checks takes: IDs and tags.
func selectors() []string { return probe.Selectors(examine.Suite()) }

// withoutPackage takes the place of the function in cobra's script that needs the package
// bash-completion. Bash splits words at = and : too, which are one here.
const withoutPackage = `
# Where the package bash-completion is not loaded.
__calico-probe_init_completion()
{
    local line=${COMP_LINE:0:COMP_POINT}
    COMPREPLY=()
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    cword=$((${#words[@]} - 1))
    cur=${words[cword]} prev=${words[cword - 1]}
}
`

// bashAlone has the script for bash work where the package bash-completion is missing, too.
func bashAlone(root *cobra.Command) {
	bash, _, err := root.Find([]string{"completion", "bash"})
	if err != nil { // cobra has just added it
		panic(err)
	}
	_, rest, _ := strings.Cut(bash.Long, "To load completions in your current shell session:")
	bash.Long = "Generate the autocompletion script for the bash shell.\n\nTo load completions in your current shell session:" + rest
	bash.RunE = func(cmd *cobra.Command, _ []string) error {
		plain, err := cmd.Flags().GetBool("no-descriptions")
		if err != nil {
			return err
		}
		if err := root.GenBashCompletionV2(cmd.OutOrStdout(), !plain); err != nil {
			return err
		}
		_, err = io.WriteString(cmd.OutOrStdout(), withoutPackage)
		return err
	}
}
