package session

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/probe"

	"github.com/calico-probe/calico-probe/probe/tools"
)

// insideTools returns the tools that work in a pod's network. These tools are about a network namespace. All other
// tools are about the node.
func insideTools() []*probe.Tool {
	return []*probe.Tool{tools.Ping, tools.Dial, tools.DNS, tools.Route, tools.Links, tools.Neigh, tools.Drops,
		tools.Capture}
}

func insideTool(name string) *probe.Tool {
	all := insideTools()
	if i := slices.IndexFunc(all, func(t *probe.Tool) bool { return t.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

func insideNames() []string {
	var out []string
	for _, t := range insideTools() {
		out = append(out, t.Name)
	}
	return out
}

// in returns the command that runs a tool in a pod's network namespace.
func (c *Session) in() *prompt.Command {
	return &prompt.Command{
		Name: "in", Usage: "POD COMMAND...", Short: "run ping, dial, dns, route, drops, capture, ... in a pod's network",
		Doc: `Runs a command inside the network namespace of a pod on the node: its packets leave like
the pod's own, through the pod's policies. It runs no program of the pod and puts nothing
into it. POD is NAMESPACE/NAME, or NAME if it is unique.

  in default/web-7c9d ping 10.244.7.9
  in web-7c9d dial 10.96.0.10:53
  in web-7c9d dns kubernetes.default

dns queries the cluster's DNS unless you add a @SERVER. It tries NAME in the search list that
the kubelet sets for the pod, unless NAME ends with a dot. It ignores the pod's own dnsConfig.
dial resolves names as the node does.`,
		Check: checkInside,
		Run:   c.runInside,
		Complete: func(ctx context.Context, before []string) []string {
			switch len(before) {
			case 0:
				return c.podNames(ctx)
			case 1:
				return insideNames()
			}
			return nil
		},
	}
}

func checkInside(args []string) error {
	if len(args) < 2 {
		return errors.New("in takes a pod and a command: in default/web ping 10.244.7.9")
	}
	t := insideTool(args[1])
	if t == nil {
		return fmt.Errorf("in a pod, use one of %s, not %q", strings.Join(insideNames(), ", "), args[1])
	}
	return t.Check(args[2:])
}

func (c *Session) runInside(ctx context.Context, call *prompt.Call) error {
	client, snap, err := c.at.Snapshot(ctx)
	if err != nil {
		return err
	}
	if client == nil {
		return errors.New("the pods on this node are unknown: no API is in use")
	}
	pods, err := client.Running(ctx, c.at.opts.Node)
	if err != nil {
		return err
	}
	pod, err := podNamed(pods, call.Args[0], c.at.opts.Node)
	if err != nil {
		return err
	}
	what := probe.Call{Tool: call.Args[1], Args: asPod(pods, pod.Name, call.Args[1], call.Args[2:]), From: &pod}
	if server, ok := serverFor(snap, what); ok {
		what.Args = append(slices.Clone(what.Args), "@"+server.String())
	}
	return c.useTool(ctx, call, what)
}

// asPod returns the arguments for a tool that resolves a name as the pod does, with the search list of the pod's
// namespace.
func asPod(pods []corev1.Pod, pod, tool string, args []string) []string {
	chosen := func(arg string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return strings.HasPrefix(arg, "-") && (name == "of" || name == "search")
	}
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Namespace+"/"+p.Name == pod })
	if tool != tools.DNS.Name || slices.ContainsFunc(args, chosen) || i < 0 ||
		!slices.Contains([]corev1.DNSPolicy{"", corev1.DNSClusterFirst}, pods[i].Spec.DNSPolicy) {
		return args
	}
	return append([]string{"--of", pods[i].Namespace}, args...)
}

// podNamed returns the pod with that name on this node, if a tool can run in the pod's network.
func podNamed(pods []corev1.Pod, name, node string) (probe.Target, error) {
	fit := slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
		return p.Name != name && p.Namespace+"/"+p.Name != name
	})
	switch {
	case len(fit) == 0:
		return probe.Target{}, prompt.Usagef("no pod %s runs on %s; 'ps pods' lists them", name, node)
	case len(fit) > 1:
		return probe.Target{}, prompt.Usagef("%s runs in namespaces %s and %s: name it NAMESPACE/NAME", name, fit[0].Namespace, fit[1].Namespace)
	}
	p := &fit[0]
	full := p.Namespace + "/" + p.Name
	if p.Spec.HostNetwork {
		return probe.Target{}, prompt.Usagef("%s is in the node's own network: leave out 'in'", full)
	}
	for _, ip := range p.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			return probe.Target{Kind: probe.KindLocal, Name: full, Node: node, Addr: a,
				Attrs: map[string]string{probe.AttrUID: string(p.UID)}}, nil
		}
	}
	return probe.Target{}, fmt.Errorf("%s has no address yet: 'run cni-' shows why", full)
}

// serverFor returns the cluster's DNS server for a lookup in a pod that does not name a server.
func serverFor(snap *cluster.Snapshot, what probe.Call) (netip.AddrPort, bool) {
	names := func(arg string) bool { return strings.HasPrefix(arg, "@") }
	if what.Tool != tools.DNS.Name || slices.ContainsFunc(what.Args, names) || snap == nil {
		return netip.AddrPort{}, false
	}
	targets, _ := cluster.Targets(snap)
	for _, t := range targets {
		if t.Kind == probe.KindDNS && t.Name != probe.RoleEndpoint {
			return netip.AddrPortFrom(t.Addr, uint16(t.Port)), true
		}
	}
	return netip.AddrPort{}, false
}

// podNames completes the pods that a tool can enter. Without the API it offers none.
func (c *Session) podNames(ctx context.Context) []string {
	if c.at == nil || c.at.reader == nil {
		return nil
	}
	pods, err := c.at.reader.Running(ctx, c.at.opts.Node)
	if err != nil {
		return nil
	}
	var out []string
	for _, p := range pods {
		if !p.Spec.HostNetwork {
			out = append(out, p.Namespace+"/"+p.Name)
		}
	}
	return out
}
