// Command sandbox runs a real two-node Kubernetes cluster on one Linux machine,
// as root, without a container engine or an image registry: etcd, the control
// plane, two kubelets with containerd, kube-proxy, BIRD for both families and
// CoreDNS, in namespaces that end with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/calico-probe/calico-probe/test/sandbox/build"
	"github.com/calico-probe/calico-probe/test/sandbox/far"
)

const usage = `usage: sandbox VERB [--name NAME] [ARGUMENT...]

  build [--kubernetes 1.36] [--machines]
                            build what the cluster is made of (minutes, once)
  up [--timeout 90s] [--nodes 2] [--kubernetes 1.36] [--keep]
                            start the cluster and wait until it is ready; --keep keeps it
                            running if it is not ready in time
     [--calico DIR [--manifest FILE]]
                            with Calico itself: DIR holds image archives ('docker save',
                            'crane pull'), FILE is Calico's manifest (DIR/calico.yaml)
     [--machines]           nodes are virtual machines, each with a kernel and systemd;
                            thirty times slower (README.md)
  reboot NODE               reboot a node that is a machine, and wait until it is ready
  down                      stop it; nothing stays behind
  status                    what runs, and where its logs are
  kubeconfig                print the path of the client configuration
  exec NODE -- COMMAND...   run a command on a node
  ssh-config                print a configuration for 'ssh -F', to log in on nodes
  load TAR...               import image archives on both nodes
  felix NODE ok|204|503|hang|refuse
                            how the Felix stand-in answers on port 9099
  init-hang NODE on|off     calico-node hangs in its first init container, or no more
  fault list                the faults that can be made, for training and tests
  fault inject NAME         make one of them, for real
  fault heal                take it away and wait until the cluster is whole
`

// errUsage is bad input; its text is one line.
type errUsage struct{ error }

func badUsage(format string, args ...any) error { return errUsage{fmt.Errorf(format, args...)} }

func main() {
	err := run(os.Args[1:])
	var exit errExit
	switch {
	case err == nil:
		return
	case errors.As(err, &exit):
		os.Exit(int(exit))
	case errors.As(err, new(errUsage)):
		fmt.Fprintf(os.Stderr, "sandbox: %v\n", err)
		os.Exit(2)
	}
	fmt.Fprintf(os.Stderr, "sandbox: %v\n", err)
	os.Exit(1)
}

// errExit passes on a command's exit code.
type errExit int

func (e errExit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func run(args []string) error {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "--help"}, args[0]) {
		fmt.Print(usage)
		return nil
	}
	verb := args[0]
	do := verbs[verb]
	if do == nil {
		return badUsage("unknown verb %q; 'sandbox help' lists them", verb)
	}
	o, err := parse(verb, args[1:])
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 && verb != "build" {
		return errors.New("namespaces and mounts need root: run this with sudo")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	layout{o.name}.readSize()
	return do(ctx, layout{o.name}, o)
}

// options are the arguments after the verb.
type options struct {
	name     string
	timeout  time.Duration
	calico   string // folder with the image archives of Calico itself
	manifest string // Calico's manifest
	nodes    int    // number of nodes
	machines bool   // nodes are virtual machines
	args     []string

	kubernetes string // its version, "" for the default
	keep       bool   // keep a cluster that does not become ready
}

func parse(verb string, rest []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("sandbox "+verb, flag.ContinueOnError)
	flags.SetOutput(new(strings.Builder)) // we print one line instead
	flags.StringVar(&o.name, "name", "default", "")
	if verb == "up" || verb == "build" {
		flags.BoolVar(&o.machines, "machines", false, "")
	}
	if verb == "up" {
		flags.DurationVar(&o.timeout, "timeout", 0, "")
		flags.StringVar(&o.calico, "calico", "", "")
		flags.StringVar(&o.manifest, "manifest", "", "")
		flags.IntVar(&o.nodes, "nodes", minNodes, "")
		flags.BoolVar(&o.keep, "keep", false, "")
	}
	if verb == "up" || verb == "build" {
		flags.StringVar(&o.kubernetes, "kubernetes", "", "")
	}
	if err := flags.Parse(rest); err != nil {
		return o, badUsage("%s: %w; 'sandbox help' lists the verbs", verb, err)
	}
	for verb == "fault" && flags.NArg() > 0 { // flags may come between its words
		o.args = append(o.args, flags.Arg(0))
		if err := flags.Parse(flags.Args()[1:]); err != nil {
			return o, badUsage("%s: %w; 'sandbox help' lists the verbs", verb, err)
		}
	}
	o.args = append(o.args, flags.Args()...)
	if err := build.CheckKubernetes(o.kubernetes); err != nil {
		return o, badUsage("--kubernetes: %w", err)
	}
	if verb == "up" && o.machines && o.kubernetes != "" {
		return o, badUsage("--machines: its disk has the default version of Kubernetes only, so leave out --kubernetes")
	}
	if verb == "up" && (o.nodes < minNodes || o.nodes > maxNodes) {
		return o, badUsage("--nodes %d: a cluster has %d to %d", o.nodes, minNodes, maxNodes)
	}
	if strings.Trim(o.name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || o.name == "" || len(o.name) > 20 {
		return o, badUsage("cluster name %q: use up to 20 lower-case letters, digits and hyphens", o.name)
	}
	return o, nil
}

// verbs maps each verb to its function.
var verbs = map[string]func(context.Context, layout, options) error{
	"build":      func(ctx context.Context, _ layout, o options) error { return buildVerb(ctx, o) },
	"up":         up,
	"down":       func(ctx context.Context, l layout, _ options) error { return down(ctx, l) },
	"status":     func(_ context.Context, l layout, _ options) error { return status(l) },
	"kubeconfig": func(_ context.Context, l layout, _ options) error { return kubeconfig(l) },
	"exec":       func(ctx context.Context, l layout, o options) error { return execOn(ctx, l, o.args) },
	"ssh-config": func(_ context.Context, l layout, _ options) error { return sshConfig(l) },
	"dial":       func(_ context.Context, l layout, o options) error { return dial(l, o.args) }, // for ssh-config
	"reboot":     func(ctx context.Context, l layout, o options) error { return reboot(ctx, l, o.args) },
	"load":       func(ctx context.Context, l layout, o options) error { return load(ctx, l, o.args) },
	"felix":      func(_ context.Context, l layout, o options) error { return felix(l, o.args) },
	"init-hang":  func(ctx context.Context, l layout, o options) error { return initHang(ctx, l, o.args) },
	"fault":      func(ctx context.Context, l layout, o options) error { return faultVerb(ctx, l, o.args) },

	verbSupervise: func(_ context.Context, l layout, _ options) error { return supervise(l) },
	verbReap:      func(_ context.Context, l layout, _ options) error { return reap(l) },
	verbCluster:   func(_ context.Context, l layout, _ options) error { return cluster(l) },
	verbNode:      func(_ context.Context, l layout, o options) error { return joinNode(l, o.args) },
	verbFar:       func(_ context.Context, _ layout, o options) error { return far.Run(o.args) },
	verbNodeInit:  func(_ context.Context, l layout, o options) error { return nodeInit(l, o.args) },
}

// Internal verbs, with which sandbox starts itself as the cluster's processes.
const (
	verbSupervise = "_supervise" // in the machine's namespaces: starts the cluster, admits clients
	verbReap      = "_reap"      // beside it: removes cgroups and state when it has ended
	verbCluster   = "_cluster"   // first process of the cluster's namespaces
	verbNode      = "_node"      // a node before it has its cgroup namespace
	verbNodeInit  = "_node-init" // first process of a node
)

func memberNames() []string {
	var out []string
	for _, m := range members() {
		out = append(out, m.Name)
	}
	return out
}

// memberNamed returns the node that the user named.
func memberNamed(args []string) (member, []string, error) {
	if len(args) == 0 {
		return member{}, nil, badUsage("name a node: %s", strings.Join(memberNames(), ", "))
	}
	for _, m := range members() {
		if m.Name == args[0] {
			return m, args[1:], nil
		}
	}
	return member{}, nil, badUsage("no node %q: the cluster has %s", args[0], strings.Join(memberNames(), ", "))
}
