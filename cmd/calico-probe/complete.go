package main

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/probe"
)

// completer returns the possible values of an argument or flag.
type completer = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// completions registers the shell completions of a command's flags.
func completions(cmd *cobra.Command, of map[string]completer) {
	for flag, f := range of {
		_, had := cmd.GetFlagCompletionFunc(flag)
		if had || cmd.Flags().Lookup(flag) == nil { // the verb already completes the flag, or does not have it
			continue
		}
		// Any other error is a bug, and every test of the command would panic.
		if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
			panic(err)
		}
	}
}

// oneOf completes a value from a list.
func oneOf(values []string) completer {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

// foldersOnly completes folder names.
func foldersOnly(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// several completes the last item of a comma-separated list with a value that is not yet in the list.
// It adds no space, because another comma may follow.
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

// viaMethods completes --via with a single word, or with the methods that can follow a comma.
func viaMethods(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if strings.Contains(typed, ",") {
		return several(injector.FallbackNames)(cmd, args, typed)
	}
	return examine.ViaWords(), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completionLimit is the time limit for a completion. It is short because a person waits at a prompt.
const completionLimit = 3 * time.Second

// nodeNames and namespaceNames complete the cluster's nodes and namespaces.
func (a *app) nodeNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return a.listed(func(ctx context.Context, kube corev1.CoreV1Interface,
		cached metav1.ListOptions) (names []string, _ error) {
		list, err := kube.Nodes().List(ctx, cached)
		for _, n := range list.Items {
			names = append(names, n.Name)
		}
		return names, err
	})
}

func (a *app) namespaceNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return a.listed(func(ctx context.Context, kube corev1.CoreV1Interface,
		cached metav1.ListOptions) (names []string, _ error) {
		list, err := kube.Namespaces().List(ctx, cached)
		for _, n := range list.Items {
			names = append(names, n.Name)
		}
		return names, err
	})
}

// listed completes the items of a list. If listing fails, it offers nothing.
func (a *app) listed(
	list func(context.Context, corev1.CoreV1Interface, metav1.ListOptions) ([]string, error),
) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completionLimit)
	defer cancel()
	config, err := a.restConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	kube, err := corev1.NewForConfig(config)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, err := list(ctx, kube, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// contexts completes the contexts of the kubeconfig.
func (a *app) contexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	config, err := a.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// savedNodes completes FILE:NODE with the nodes of the file, and leaves file names to the shell.
func (a *app) savedNodes(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	file, _, node := strings.Cut(typed, ":")
	switch {
	case len(args) > 1:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case !node || file == "-":
		return nil, cobra.ShellCompDirectiveDefault
	}
	saved, err := a.load(file)
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var out []string
	for _, run := range saved.Runs {
		if name := file + ":" + run.Node; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// selectors are the values of --checks: IDs and tags.
func selectors() []string { return probe.Selectors(examine.Suite()) }

// withoutPackage replaces the function of cobra's script that needs the package bash-completion. Unlike bash, the new
// function does not split words at = and :.
const withoutPackage = `
# Used if the package bash-completion is not loaded.
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

// bashAlone changes the bash script so that it works without the package bash-completion.
func bashAlone(root *cobra.Command) {
	bash, _, err := root.Find([]string{"completion", "bash"})
	if err != nil { // cobra has just added this command
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
