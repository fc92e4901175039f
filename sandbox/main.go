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
)

const usage = `usage: sandbox VERB [--name NAME] [ARGUMENT...]

  build                     build what the cluster is made of (minutes, once)
  up [--timeout 90s]        start the cluster and wait until it is ready
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

// errExit passes a command's exit code on.
type errExit int

func (e errExit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func run(args []string) error {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "--help"}, args[0]) {
		fmt.Print(usage)
		return nil
	}
	verb, rest := args[0], args[1:]
	flags := flag.NewFlagSet("sandbox "+verb, flag.ContinueOnError)
	flags.SetOutput(new(strings.Builder)) // one line of ours instead
	name := flags.String("name", "default", "")
	timeout := flags.Duration("timeout", 90*time.Second, "")
	if err := flags.Parse(rest); err != nil {
		return badUsage("%s: %w; 'sandbox help' lists the verbs", verb, err)
	}
	var words []string
	for verb == "fault" && flags.NArg() > 0 { // flags may stand among its words
		words = append(words, flags.Arg(0))
		if err := flags.Parse(flags.Args()[1:]); err != nil {
			return badUsage("%s: %w; 'sandbox help' lists the verbs", verb, err)
		}
	}
	if strings.Trim(*name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || *name == "" || len(*name) > 20 {
		return badUsage("cluster name %q: use up to 20 lower-case letters, digits and hyphens", *name)
	}
	if os.Geteuid() != 0 && verb != "build" {
		return errors.New("namespaces and mounts need root: run this with sudo")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, rest := layout{*name}, flags.Args()
	switch verb {
	case "build":
		return build(ctx)
	case "up":
		return up(ctx, l, *timeout)
	case "down":
		return down(ctx, l)
	case "status":
		return status(l)
	case "kubeconfig":
		return kubeconfig(l)
	case "exec":
		return execOn(ctx, l, rest)
	case "ssh-config":
		return sshConfig(l)
	case "dial": // what that configuration leads through
		return dial(l, rest)
	case "load":
		return load(ctx, l, rest)
	case "felix":
		return felix(l, rest)
	case "init-hang":
		return initHang(ctx, l, rest)
	case "fault":
		return faultVerb(ctx, l, words)
	case verbSupervise:
		return supervise(l)
	case verbReap:
		return reap(l)
	case verbCluster:
		return cluster(l)
	case verbNode:
		return joinNode(l, rest)
	case verbFar:
		return far(rest)
	case verbNodeInit:
		return nodeInit(l, rest)
	}
	return badUsage("unknown verb %q; 'sandbox help' lists them", verb)
}

// The verbs sandbox calls itself by, one a process of the cluster's skeleton.
const (
	verbSupervise = "_supervise" // in the machine's namespaces: starts the cluster, lets clients in
	verbReap      = "_reap"      // beside it: removes cgroups and state when it has ended
	verbCluster   = "_cluster"   // first process of the cluster's namespaces
	verbNode      = "_node"      // a node before it has its cgroup namespace
	verbNodeInit  = "_node-init" // first process of a node
)

// memberNamed is the node a user named.
func memberNamed(args []string) (member, []string, error) {
	if len(args) == 0 {
		return member{}, nil, badUsage("name a node: node-a or node-b")
	}
	for _, m := range members() {
		if m.Name == args[0] {
			return m, args[1:], nil
		}
	}
	return member{}, nil, badUsage("no node %q: the cluster has node-a and node-b", args[0])
}
