package main

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/calico-probe/calico-probe/install"
	"github.com/calico-probe/calico-probe/probe"
)

const installExample = `  # what every way needs, for a group of people
  calico-probe install --print --group on-call | kubectl apply -f -

  # only what reads, and probes in pods; Calico was installed by its operator
  calico-probe install --print --ways pod --calico-namespace calico-system --user jane

  # 'serve' too, which takes alerts; its tokens and its certificate are in secrets of yours
  calico-probe install --print --serve | kubectl apply -f -
  kubectl -n calico-probe create secret generic calico-probe-serve --from-literal=token=$(openssl rand -hex 24)
  kubectl -n calico-probe create secret tls calico-probe-serve-tls --cert=tls.crt --key=tls.key`

// installNote is for whoever applies it, or takes it away again.
const installNote = `# Namespace %s is made, or given the labels that admit privileged pods; 'kubectl delete -f' of
# this deletes it with all that is in it. --create-namespace=false leaves it out.
`

// The notes on 'serve': what its pod waits for, and who gets in.
const (
	tokenNote = `# 'serve' begins once there is a secret with its tokens:
# kubectl -n %s create secret generic calico-probe-serve --from-literal=token=$(openssl rand -hex 24)
`
	tlsNote = `# and one with its certificate for calico-probe-serve.%[1]s.svc, as cert-manager makes them, or:
# kubectl -n %[1]s create secret tls calico-probe-serve-tls --cert=tls.crt --key=tls.key
# (how to make tls.crt and tls.key: docs/alerts.md, "Five minutes", step 2)
`
	admitNote = "# Pods of the namespace%s may connect to it%s; --admit names others in their place.\n"
)

// serveNotes are for whoever applies what 'serve' takes.
func serveNotes(namespace string, s install.Serve) string {
	out := fmt.Sprintf(tokenNote, namespace)
	if !s.InsecureHTTP {
		out += fmt.Sprintf(tlsNote, namespace)
	}
	namespaces, networks, many := []string{namespace}, "", ""
	for _, name := range s.Admit {
		if _, err := netip.ParsePrefix(name); err == nil {
			networks += ", and the network " + name
		} else if name != namespace {
			namespaces, many = append(namespaces, name), "s"
		}
	}
	return out + fmt.Sprintf(admitNote, many+" "+strings.Join(namespaces, " and "), networks)
}

// badAdmitted says which of those who are to be admitted is neither a namespace nor a network.
func badAdmitted(admit []string) error {
	for _, name := range admit {
		if _, err := netip.ParsePrefix(name); err != nil && len(validation.IsDNS1123Label(name)) > 0 {
			return badUsage("--admit takes namespaces and networks as 10.0.0.0/8, and %q is neither", name)
		}
	}
	return nil
}

// onlyForServe refuses flags that say how 'serve' is set up where it is not.
func onlyForServe(cmd *cobra.Command) error {
	f := cmd.Flags()
	if f.Changed("serve") {
		return nil
	}
	for _, name := range []string{"client-image", "image", "external-url", "storage-class", "no-volume", "admit", "insecure-http"} {
		if f.Changed(name) {
			return badUsage("--%s is for --serve: add --serve, or leave it out", name)
		}
	}
	return nil
}

func (a *app) install() *cobra.Command {
	var printed, serve, create bool
	var from install.Serve
	var ways, users, groups, accounts []string
	o := install.Options{}
	cmd := &cobra.Command{
		Use: "install --print", Short: "Print the manifests of the namespace and the rights each way takes", Args: noArguments, Example: installExample,
		Long: `Prints a namespace that admits probes and, for each way, roles with the least rights it
takes; with --user, --group or --service-account also their bindings. It changes
nothing: whoever may grant rights reads it and applies it. A run finds the namespace
` + install.Namespace + " by itself; one of another name is named when you run, by -n too.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !printed {
				return badUsage("this program grants no rights, it prints them: use install --print | kubectl apply -f -")
			}
			if err := onlyForServe(cmd); err != nil {
				return err
			}
			for _, name := range []string{o.Namespace, o.CalicoNamespace} {
				if bad := validation.IsDNS1123Label(name); len(bad) > 0 {
					return badUsage("%q is no name of a namespace: %s", name, bad[0])
				}
			}
			if from.ExternalURL != "" && !reachedAt(from.ExternalURL) {
				return badExternalURL()
			}
			if from.NoVolume && from.StorageClass != "" {
				return badUsage("--no-volume takes no --storage-class")
			}
			if err := badAdmitted(from.Admit); err != nil {
				return err
			}
			o.Existing = !create
			var err error
			if o.Uses, err = install.Named(ways...); err != nil {
				return badUsage("%w", err)
			}
			for _, of := range []struct {
				kind  string
				names []string
			}{{rbacv1.UserKind, users}, {rbacv1.GroupKind, groups}, {rbacv1.ServiceAccountKind, accounts}} {
				for _, name := range of.names {
					s, err := install.Subject(of.kind, name)
					if err != nil {
						return badUsage("%w", err)
					}
					o.Subjects = append(o.Subjects, s)
				}
			}
			objects := install.Objects(o)
			if serve {
				more, err := install.ServeObjects(o, from)
				if err != nil {
					return err
				}
				objects = append(objects, more...)
			}
			b, err := install.YAML(objects)
			if err != nil {
				return err
			}
			if serve {
				b = append([]byte(serveNotes(o.Namespace, from)), b...)
			}
			if o.Makes() {
				b = append(fmt.Appendf(nil, installNote, o.Namespace), b...)
			}
			_, err = a.Out.Write(b)
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&printed, "print", false, "print the manifests, which is all this does")
	f.StringSliceVar(&ways, "ways", install.People(), "what is to work: "+strings.Join(install.Names(), ", ")+"; api always is")
	f.StringVarP(&o.Namespace, "namespace", "n", install.Namespace, "the probe's namespace")
	f.BoolVar(&create, "create-namespace", true, "make that namespace, and have it admit privileged pods; never default, kube-* or calico-node's")
	f.StringVar(&o.CalicoNamespace, "calico-namespace", install.CalicoNamespace, "where calico-node runs; the operator has it in calico-system")
	f.StringSliceVar(&users, "user", nil, "grant it to these users")
	f.StringSliceVar(&groups, "group", nil, "grant it to these groups")
	f.StringSliceVar(&accounts, "service-account", nil, "grant it to these service accounts, NAMESPACE:NAME")
	f.BoolVar(&serve, "serve", false, "also what 'calico-probe serve' takes: its account, Deployment, Service, NetworkPolicy and volume")
	f.StringVar(&from.Image, "client-image", probe.ClientImage, "the client's image, for --serve")
	f.StringVar(&from.ProbeImage, "image", envOr("CALICO_PROBE_IMAGE", probeImage()), "the image of the probes, for --serve (environment: CALICO_PROBE_IMAGE)")
	f.StringVar(&from.ExternalURL, "external-url", "", "where people reach 'serve', for events on nodes to say (default: its Service in the cluster)")
	f.StringVar(&from.StorageClass, "storage-class", "", "the class of the volume for --serve (default: the cluster's own default)")
	f.BoolVar(&from.NoVolume, "no-volume", false, "for --serve take no volume: reports, and alerts that wait, go with its pod")
	f.StringSliceVar(&from.Admit, "admit", []string{install.AlertsFrom}, "namespaces (Alertmanager's, Prometheus', an ingress controller's) and networks (CIDRs) that may connect to 'serve', beside its own namespace")
	f.BoolVar(&from.InsecureHTTP, "insecure-http", false, "for --serve take no certificate: tokens are sent without TLS, for anybody on the way to read")
	completions(cmd, map[string]completer{"ways": several(install.Names)})
	return cmd
}
