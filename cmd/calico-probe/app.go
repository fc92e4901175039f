package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/trace"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// app holds the state that all verbs share: streams, kubectl's flags and signal handling.
type app struct {
	genericiooptions.IOStreams
	flags      *genericclioptions.ConfigFlags
	interrupts *ui.Interrupts
	many       consent
	verbose    bool

	calicoNamespace namespaceFlag // the only namespace searched for calico-node; "" = the default namespaces
}

// namespaceFlag is a flag that takes the name of a namespace.
type namespaceFlag string

func (n *namespaceFlag) String() string { return string(*n) }

func (n *namespaceFlag) Type() string { return "string" }

func (n *namespaceFlag) Set(name string) error {
	if bad := validation.IsDNS1123Label(name); len(bad) > 0 {
		return errors.New("invalid namespace: " + bad[0])
	}
	*n = namespaceFlag(name)
	return nil
}

// inNamespace validates the value of -n.
func (a *app) inNamespace() error {
	if n := *a.flags.Namespace; n != "" {
		if bad := validation.IsDNS1123Label(n); len(bad) > 0 {
			return ui.BadUsage("-n %q: invalid namespace: %s", n, bad[0])
		}
	}
	return nil
}

// connecting adds the flags for the cluster and for Calico's namespace.
func (a *app) connecting(cmd *cobra.Command) {
	f := cmd.Flags()
	a.flags.AddFlags(f)
	f.Var(&a.calicoNamespace, "calico-namespace", "trust calico-node only in this namespace (default: kube-system and calico-system)")
	completions(cmd, map[string]completer{
		"context": a.contexts, "namespace": a.namespaceNames, "calico-namespace": a.namespaceNames,
	})
}

// restConfig returns the connection settings of the cluster. Without a configuration, client-go would try
// localhost:8080, which is not the user's cluster.
func (a *app) restConfig() (*rest.Config, error) {
	raw, err := a.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, err
	}
	if _, inCluster := rest.InClusterConfig(); len(raw.Clusters) == 0 && *a.flags.APIServer == "" && inCluster != nil {
		where := "no kubeconfig was found in $HOME/.kube/config"
		if files := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); files != "" {
			where = fmt.Sprintf("the files in $KUBECONFIG (%s) do not configure a cluster", files)
		}
		return nil, fmt.Errorf("no cluster is configured: %s; set KUBECONFIG or use --kubeconfig", where)
	}
	config, err := a.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	config.Wrap(func(to http.RoundTripper) http.RoundTripper { return trace.Requests(to, server.Path) })
	return config, nil
}

// chosen describes the cluster that the flags and the kubeconfig select. It omits the URL path, because some paths
// contain a token. If --cluster or --server overrides the context, it omits the context, which then belongs to another
// cluster.
func (a *app) chosen() (*probe.Cluster, error) {
	config, err := a.restConfig()
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	raw, err := a.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, err
	}
	at := &probe.Cluster{Server: server.Scheme + "://" + server.Host}
	if *a.flags.ClusterName == "" && *a.flags.APIServer == "" {
		at.Context = cmp.Or(*a.flags.Context, raw.CurrentContext)
	}
	return at, nil
}

// client returns the examine.Client that the flags configure. All verbs that examine nodes use it.
func (a *app) client() (*examine.Client, error) {
	if err := a.inNamespace(); err != nil {
		return nil, err
	}
	config := examine.Config{
		Rest: a.restConfig, Cluster: a.chosen, Probe: embeddedProbe, Ours: isOurs,
		Verbose: a.verbose, Namespace: *a.flags.Namespace, CalicoNamespace: string(a.calicoNamespace),
		Consent: a.agreement(func(ctx context.Context, question string) (string, error) {
			return a.typed(ctx, question, "no probe was placed")
		}),
	}
	client := examine.NewClient(config, a.ErrOut)
	if !ui.IsTerminal(a.Out) && !a.verbose { // for example '| less': progress would overwrite the page
		client = client.Quiet()
	}
	return client, nil
}
