package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/calico-probe/calico-probe/internal/install"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

const manifestsExample = `  # grant a group the rights for every access method
  calico-probe manifests --group on-call | kubectl apply -f -

  # grant one user only the rights to read the API and create probe pods
  calico-probe manifests --methods pod --user jane

  # also install 'serve', which receives alerts; then create the Secrets with its tokens and certificate
  calico-probe manifests --serve | kubectl apply -f -
  kubectl -n calico-probe create secret generic calico-probe-serve --from-literal=token=$(openssl rand -hex 24)
  kubectl -n calico-probe create secret tls calico-probe-serve-tls --cert=tls.crt --key=tls.key`

// namespaceNote precedes manifests that have the namespace.
const namespaceNote = `# This creates namespace %s, or adds labels that admit privileged pods to it. 'kubectl delete -f'
# with this file deletes the namespace and everything in it. --create-namespace=false omits the namespace.
`

// The notes on 'serve': the Secrets that its pod needs, and which clients may connect.
const (
	tokenNote = `# The 'serve' pod starts only when two Secrets exist: one with its tokens,
# kubectl -n %s create secret generic calico-probe-serve --from-literal=token=$(openssl rand -hex 24)
`
	tlsNote = `# and one with its certificate for calico-probe-serve.%[1]s.svc, from cert-manager or from:
# kubectl -n %[1]s create secret tls calico-probe-serve-tls --cert=tls.crt --key=tls.key
# (how to make tls.crt and tls.key: docs/alerts.md, "Five minutes", step 2)
`
	admitNote = "# Pods of the namespace%s may connect to it%s; change this list with --admit.\n"
)

// manifestFlags are the flags of the verb.
type manifestFlags struct {
	install.Options
	methods, users, groups, accounts []string
	create, serve                    bool
	from                             install.Serve
}

func (a *app) manifests() *cobra.Command {
	m := &manifestFlags{}
	cmd := &cobra.Command{
		Use: "manifests", Short: "Print manifests for the namespace and for the rights of each access method",
		Args: noArguments, Example: manifestsExample,
		Long: `Prints a namespace that admits probes, and least-privilege roles for each access method. With
--user, --group or --service-account it also prints role bindings. It changes nothing: an
administrator reviews and applies the manifests. A run finds the namespace ` + install.Namespace + `
automatically. To use another name, set -n both in this command and in each run. If you set
--methods conditions and --service-account, it also prints an admission policy. The policy lets
the account write only its one condition and annotation (Kubernetes 1.30 or later).`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := m.check(cmd); err != nil {
				return err
			}
			b, err := m.print()
			if err != nil {
				return err
			}
			_, err = a.Out.Write(b)
			return err
		},
	}
	m.flags(cmd)
	return cmd
}

func (m *manifestFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&m.methods, "methods", install.People(), "print rights for: "+strings.Join(install.Names(), ", ")+"; the rights of api are always included")
	f.StringVarP(&m.Namespace, "namespace", "n", install.Namespace, "namespace of the probe pods")
	f.BoolVar(&m.create, "create-namespace", true, "create the namespace, with labels that admit privileged pods; never creates default, kube-* or calico-node's namespace")
	f.StringVar(&m.CalicoNamespace, "calico-namespace", install.CalicoNamespace, "namespace of calico-node, for the rights of ephemeral and exec; the Calico operator uses calico-system")
	f.StringArrayVar(&m.users, "user", nil, "bind the roles to this user; may be repeated")
	f.StringArrayVar(&m.groups, "group", nil, "bind the roles to this group; may be repeated")
	f.StringArrayVar(&m.accounts, "service-account", nil, "bind the roles to this service account, NAMESPACE:NAME; may be repeated")
	f.BoolVar(&m.serve, "serve", false, "add the objects for 'calico-probe serve': ServiceAccount, Deployment, Service, NetworkPolicy and volume")
	f.StringVar(&m.from.Image, "client-image", probe.ClientImage, "image of the client, for --serve")
	f.StringVar(&m.from.ProbeImage, "image", envOr("CALICO_PROBE_IMAGE", probeImage()), "image of the probes, for --serve (environment: CALICO_PROBE_IMAGE)")
	f.StringSliceVar(&m.from.Admit, "admit", []string{install.AlertsFrom}, "with --serve: namespaces and networks (CIDRs) that can connect, such as the namespaces of Alertmanager, Prometheus or an ingress controller; serve's own namespace can always connect")
	completions(cmd, map[string]completer{"methods": several(install.Names)})
}

// check rejects invalid flags, and parses the flags for users, groups and accounts.
func (m *manifestFlags) check(cmd *cobra.Command) (err error) {
	for _, name := range []string{"client-image", "image", "admit"} {
		if cmd.Flags().Changed(name) && !m.serve {
			return ui.BadUsage("--%s needs --serve: add --serve, or leave out --%[1]s", name)
		}
	}
	for _, name := range []string{m.Namespace, m.CalicoNamespace} {
		if bad := validation.IsDNS1123Label(name); len(bad) > 0 {
			return ui.BadUsage("%q: invalid namespace: %s", name, bad[0])
		}
	}
	for _, name := range m.from.Admit {
		if _, err := netip.ParsePrefix(name); err != nil && len(validation.IsDNS1123Label(name)) > 0 {
			return ui.BadUsage("--admit takes namespaces and networks such as 10.0.0.0/8, and %q is neither", name)
		}
	}
	if m.Uses, err = install.Named(m.methods...); err != nil {
		return ui.BadUsage("%w", err)
	}
	m.Existing = !m.create
	for _, of := range []struct {
		kind  string
		names []string
	}{{rbacv1.UserKind, m.users}, {rbacv1.GroupKind, m.groups}, {rbacv1.ServiceAccountKind, m.accounts}} {
		for _, name := range of.names {
			subject, err := install.Subject(of.kind, name)
			if err != nil {
				return ui.BadUsage("%w", err)
			}
			m.Subjects = append(m.Subjects, subject)
		}
	}
	return nil
}

// print writes the objects as YAML, after notes for the administrator who applies them.
func (m *manifestFlags) print() ([]byte, error) {
	objects, notes := install.Objects(m.Options), ""
	if m.Makes() {
		notes = fmt.Sprintf(namespaceNote, m.Namespace)
	}
	if m.serve {
		more, err := install.ServeObjects(m.Options, m.from)
		if err != nil {
			return nil, err
		}
		objects, notes = append(objects, more...), notes+serveNotes(m.Namespace, m.from.Admit)
	}
	b, err := install.YAML(objects)
	return slices.Concat([]byte(notes), b), err
}

// serveNotes returns the notes for the administrator who installs 'serve'.
func serveNotes(namespace string, admit []string) string {
	namespaces, networks, plural := []string{namespace}, "", ""
	for _, name := range admit {
		if _, err := netip.ParsePrefix(name); err == nil {
			networks += ", and the network " + name
		} else if name != namespace {
			namespaces, plural = append(namespaces, name), "s"
		}
	}
	return fmt.Sprintf(tokenNote, namespace) + fmt.Sprintf(tlsNote, namespace) +
		fmt.Sprintf(admitNote, plural+" "+strings.Join(namespaces, " and "), networks)
}
