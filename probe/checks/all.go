// Package checks holds the questions a probe asks on a node, one file each. All
// lists them; there is no other registration.
//
// A check is a value, so its ID, question and documentation are the same text in
// flags, help, completion and reports. It must compile everywhere, because
// clients on other systems list and explain it; what only Linux can do answers
// skip elsewhere.
//
// A check reports results: ok, info, warn or fail for what it saw, skip for what this access method does not
// show, unknown for what it could not ask.
//
//	func nodeSwap(_ context.Context, h *probe.Host) probe.Result {
//		text, err := h.ReadFile("/etc/fstab")
//		if err != nil {
//			return unseen(err) // skip or unknown, never fail
//		}
//		return probe.Found(probe.Fail, "swap is on: %s", name).With(FactSwaps, name)
//	}
//
// To add one: its file, its test, a line in All; CONTRIBUTING.md has the rest.
package checks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// All lists the node checks in the order in which they are shown: from what Calico does on the node, over the paths
// that depend on it, to the node below. What a check needs is named by its Needs and not by this order.
func All() []*probe.Check {
	return []*probe.Check{
		// Felix, then BIRD and what it was given: the first question about a node is whether they live.
		FelixLive, FelixReady, BirdSocket, BGPSession, BirdConfig, BGPExpected,
		// Paths from the node and from its pods: the uplink first, because the others need it.
		NodeUplink, NodePing, podUplink, PodPing, PodTCP, PodMTU,
		// Services: they need those paths.
		ServiceClusterIP, ServiceNodePort, ServiceDestination,
		// What the kernel does with packets, which explains the paths: routes, rules, interfaces, IPsec, conntrack.
		RouteCanReach, RouteBlocks, RoutePods, RouteRules, RouteSpecial, PodGateway, XFRMPolicies, Untracked,
		// Tunnels and packet sizes.
		OverlayTunnels, IPSetHosts, CNIMTU,
		// The firewall, the node's address, and the port of BGP, which both of them can close.
		NodeFirewall, IPAutodetect, BGPPort,
		// What calico-node needs to start and to stay up to date.
		DatastoreLatency, StartupBudget, TyphaReach,
		// Names: they need Services.
		DNSCluster, DNSExternal,
		// Runtimes, the kubelet and kube-proxy.
		ContainerdHealth, CRIHealth, DockerHealth, RuntimeGhosts, KubeletHealth, KubeProxyHealth,
		// Init containers of calico-node, and the files that they write for the CNI plugin.
		InitStall, IPAMFiles, CNIConfig, CNINodename, CNIToken, CNIServer,
		// What components and the kernel logged.
		CalicoLog, CalicoErrors, KubeLog, DaemonLog, KernelLog,
		// The machine.
		NodeSwap, NodeLoad, NodeMemory, NodeDisk, NodeClock, NodeConntrack, NodeSysctl, NodeNeighbours, NodeLimits,
		// For comparison with a baseline node: it judges nothing.
		NodeState,
		// Last, what takes long or needs a second probe.
		EncapProof, PacketDrops, NeighbourReach,
	}
}

// Tags are the families that a check can belong to. --checks and --skip take them, so a family holds
// what its name says and nothing else: BGP is BIRD's sessions and configuration, not what a cluster
// without BGP needs too. A check that takes a probe on another node has no family: nobody who asks for
// a family expects a second pod. It is chosen by its ID, or by its profile.
const (
	tagFelix   = "felix"
	tagBGP     = "bgp"
	tagNetwork = "network"
	tagRuntime = "runtime"
	tagHost    = "host"
	tagCNI     = "cni"
	tagOverlay = "overlay"

	tagDatastore = "datastore"
	tagDNS       = "dns"
	tagService   = "service"
)

// Facts that several checks use.
const (
	FactFamily probe.Fact = "family" // 4 or 6
)

func family(a netip.Addr) int {
	if a.Is4() || a.Is4In6() {
		return 4
	}
	return 6
}

// unseen turns an error of looking at the node into a result: skip when this way
// onto the node does not show the place, unknown otherwise.
func unseen(err error) probe.Result {
	if errors.Is(err, probe.ErrNotVisible) || errors.Is(err, errors.ErrUnsupported) {
		return probe.Found(probe.Skip, "%v", err)
	}
	return probe.Failed(err)
}

// part is some fifths of the time a check has left for one of the things it waits
// for, so that a longer or shorter --check-timeout is felt inside too. The second
// value is how long that is.
func part(ctx context.Context, fifths int) (context.Context, time.Duration, context.CancelFunc) {
	limit := probe.DefaultLimit
	if at, ok := ctx.Deadline(); ok {
		limit = time.Until(at)
	}
	limit = limit * time.Duration(fifths) / 5
	ctx, cancel := context.WithTimeout(ctx, limit)
	return ctx, limit.Round(10 * time.Millisecond), cancel
}

// cutShort is the result of a question that was interrupted from outside before its own time was over;
// false when it was not.
func cutShort(ctx context.Context, err error) (probe.Result, bool) {
	if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		return probe.Result{}, false
	}
	if errors.Is(err, context.Canceled) {
		return probe.Found(probe.Unknown, "interrupted before an answer came"), true
	}
	return probe.Found(probe.Unknown, "interrupted before an answer came: %v", err), true
}

// gap is the result of a check that has nobody to ask: unknown when the plan
// says that they could not be listed, skip otherwise.
func gap(p *probe.Pass, kind, nobody string) probe.Result {
	if err := unlisted(p, kind); err != nil {
		return unseen(fmt.Errorf("the targets are not known: %w", err))
	}
	if len(p.Targets) == 0 {
		return probe.Found(probe.Skip, "not known: the API was not asked")
	}
	return probe.Found(probe.Skip, "%s", nobody)
}

// unlisted is why the plan does not have the targets of a kind, nil when it does.
func unlisted(p *probe.Pass, kind string) error {
	switch why := p.Gaps[kind]; why {
	case "":
		return nil
	case probe.GapEtcd, probe.GapNotCalicos:
		return fmt.Errorf("%s: %w", why, probe.ErrNotVisible)
	default:
		return errors.New(why)
	}
}

// about adds to what was seen of a target what the API says about the node it
// lives on: of a node that is not ready nothing else is expected. What a policy may forbid is no fault that is
// certain; a node always
// reaches its own pods, which the kubelet probes.
func about(r probe.Result, t probe.Target) probe.Result {
	if t.Kind != probe.KindLocal {
		r = r.Under(t, probe.DeniesIngress)
	}
	if state := t.Attrs[probe.AttrNode]; state != "" && r.Status != probe.OK {
		if r.Status == probe.Fail { // of that node, and this one is not at fault
			r.Status = probe.Warn
		}
		r.Saw += fmt.Sprintf("; the API reports %s as %s", t.Node, state)
		r = r.With(probe.FactNodeState, state)
	}
	return r
}

// named is the name of the first target of a kind, "" when the plan has none.
func named(p *probe.Pass, kind string) string {
	if t := p.Of(kind); len(t) > 0 {
		return t[0].Name
	}
	return ""
}

// splitByFamily gives the targets of each family, in order.
func splitByFamily(targets []probe.Target) map[int][]probe.Target {
	out := map[int][]probe.Target{}
	for _, t := range targets {
		if t.Addr.IsValid() {
			out[family(t.Addr)] = append(out[family(t.Addr)], t)
		}
	}
	return out
}

// unique drops targets whose address came before.
func unique(targets []probe.Target) []probe.Target {
	var out []probe.Target
	for _, t := range targets {
		if !slices.ContainsFunc(out, func(o probe.Target) bool { return o.Addr == t.Addr }) {
			out = append(out, t)
		}
	}
	return out
}

// each calls f for every item, side by side.
func each[T any](items []T, f func(T)) {
	var all probe.Workers
	for _, item := range items {
		all.Go(func() { f(item) })
	}
	all.Wait()
}
