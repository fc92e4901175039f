package examine

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	suiteapi "github.com/calico-probe/calico-probe/internal/subject/suite/api"
	"github.com/calico-probe/calico-probe/internal/trace"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// A healthy node starts a probe in a second and answers in a few seconds. A slower node does not help, and the user is
// waiting.
const (
	baselineLimit = 20 * time.Second
	baselineStart = 8 * time.Second
	// If packets to a node are lost, it runs the whole suite, and many of its checks time out.
	suspectLimit = 60 * time.Second
)

// baselineLimit returns the time limit for a baseline node. If the user extends the time that a probe has to start,
// that time also applies here.
func (r *Run) baselineLimit() time.Duration {
	return baselineLimit + max(0, r.opts.StartTimeout-baselineStart)
}

// Compares reports whether the run may use baseline nodes at all.
func (r *Run) Compares(snap *cluster.Snapshot) bool {
	return snap != nil && r.opts.Baselines > 0 && r.opts.access().Covers(injector.OtherNodes) &&
		slices.ContainsFunc(r.picked, link.NeighbourReach.Is)
}

// troubled reports whether there is a reason to compare: a failed check on the node, a warning without a cause, or the
// lack of an access method that works.
func troubled(seen diagnose.Findings, suite diagnose.Suite) bool {
	bad := slices.ContainsFunc(seen.All, func(r diagnose.Finding) bool {
		return r.Node == seen.Node && (r.Status == probe.Fail || r.Check == probe.CheckPlaced && r.Status == probe.Unknown)
	})
	return bad || len(evidence.Unreached(seen)) > 0 || len(diagnose.Explain(seen, suite).Unexplained) > 0
}

// worthComparing returns the checks to run on baseline nodes: the checks that failed on the node, the settings checks
// that ran there, CoreDNS's own checks if names do not resolve, and the firewall's check if packets are lost. It always
// includes the check of the BGP sessions, and the check whether the baseline node reaches the node.
func worthComparing(seen diagnose.Findings, suite []*probe.Check) []*probe.Check {
	var out []*probe.Check
	for _, c := range suite {
		switch {
		case c.Is(nodestate.NodeState):
			if len(seen.Of(c.ID)) > 0 || !answeredItself(seen) { // otherwise this check may still run on the node
				out = append(out, c)
			}
		case c.Is(logs.KubeLog) && len(seen.Bad(dns.DNSCluster.ID))+len(seen.Bad(dns.DNSExternal.ID)) > 0:
			// CoreDNS may run on the baseline node
			out = append(out, c)
		case c.Is(overlay.EncapProof), // needs two probes that expect each other
			c.Is(firewall.PacketDrops): // is about this node's lost packets
		case c.Is(firewall.NodeFirewall) && len(seen.Bad(bgp.BGPSession.ID))+len(seen.Bad(pod.PodPing.ID)) > 0:
			out = append(out, c) // it may drop this node's packets
		case c.Is(bgp.BGPSession), c.Is(link.NeighbourReach), len(seen.Bad(c.ID)) > 0 && c.From != probe.FromClient:
			out = append(out, c)
		}
	}
	return out
}

// answeredItself reports whether a probe on the node has already answered anything.
func answeredItself(seen diagnose.Findings) bool {
	return slices.ContainsFunc(seen.All, func(r diagnose.Finding) bool {
		return r.Node == seen.Node && r.Method != injector.MethodAPI && r.Check != probe.CheckPlaced
	})
}

// preferred returns the remote addresses of failed BGP sessions. The nodes with these addresses are the first choice as
// baseline nodes.
func preferred(seen diagnose.Findings) []netip.Addr {
	var out []netip.Addr
	for _, r := range seen.Bad(bgp.BGPSession.ID) {
		if a, err := netip.ParseAddr(r.Facts.Str(bgp.FactPeer)); err == nil && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// baseline holds the answers of one healthy node.
type baseline struct {
	node   string
	events []probe.Event
	err    error // no probe could be placed, or its answer is incomplete
}

// comparison waits until all running baseline nodes have answered or their time is over. Further calls return the same
// answers.
type comparison func() []baseline

// heardNothing waits, and reports whether the node did not answer any baseline node. This requires two baseline nodes,
// or one if the API also shows that the kubelet is silent.
func (wait comparison) heardNothing(kubeletSilent bool) bool {
	witnesses := 0
	for _, l := range wait() {
		compared := false
		for _, ev := range l.events {
			r := ev.Result
			if r == nil || r.Check != link.NeighbourReach.ID || r.Facts[link.FactReference] == true {
				continue
			}
			switch {
			case r.Status == probe.OK, r.Status == probe.Fail && probe.IsReply(r.Facts.Str(probe.FactReason)):
				return false
			case r.Status == probe.Fail:
				compared = true
			}
		}
		if compared {
			witnesses++
		}
	}
	return witnesses > 1 || witnesses == 1 && kubeletSilent
}

// askBaselines starts the probes on the baseline nodes without waiting. The returned function waits.
func (r *Run) askBaselines(ctx context.Context, client *cluster.Client, snap *cluster.Snapshot) comparison {
	prefer := preferred(r.Seen)
	if r.view != nil {
		prefer = append(prefer, cluster.Addresses(r.view.node)...)
	}
	suspects := r.suspects(snap)
	for _, n := range suspects {
		prefer = append(cluster.Addresses(n), prefer...)
	}
	nodes := r.baselineNodes(snap, prefer)
	suite := r.picked
	if !slices.ContainsFunc(suite, nodestate.NodeState.Is) && !r.opts.NoFollowUp && len(r.opts.Checks) == 0 {
		suite = append(slices.Clone(suite), r.mayAsk([]diagnose.Cover{{Check: nodestate.NodeState.ID}}, snap)...)
	}
	compared := worthComparing(r.Seen, suite)
	answers := make([]baseline, len(nodes))
	limit := r.baselineLimit()
	if len(suspects) > 0 {
		limit = suspectLimit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, lateError(limit))
	var all probe.Workers
	for i, node := range nodes {
		r.client.Progress("comparison: putting a probe on %s", node.Name)
		wanted := compared
		if slices.ContainsFunc(suspects, func(n *corev1.Node) bool { return n.Name == node.Name }) {
			wanted = r.wholeSuite(compared)
		}
		all.Go(func() {
			answers[i] = r.askSafely(ctx, client, snap, node, r.view.without(node, wanted))
		})
	}
	return func() []baseline {
		defer cancel()
		all.Wait()
		return answers
	}
}

// baselineNodes returns the healthy nodes to compare with, preferred addresses first.
func (r *Run) baselineNodes(snap *cluster.Snapshot, prefer []netip.Addr) []*corev1.Node {
	if r.among == nil {
		return cluster.BaselineNodes(snap, r.opts.Baselines, prefer)
	}
	all := slices.DeleteFunc(cluster.BaselineNodes(snap, len(snap.Nodes), prefer), func(n *corev1.Node) bool {
		return !r.among[n.Name]
	})
	return all[:min(len(all), r.opts.Baselines)]
}

// suspects returns the other nodes to which packets are lost without a proven cause. The cause may be at either end.
func (r *Run) suspects(snap *cluster.Snapshot) []*corev1.Node {
	if r.opts.NoFollowUp || len(r.opts.Checks) > 0 {
		return nil
	}
	var out []*corev1.Node
	for _, name := range diagnose.Suspects(r.Seen, r.suite) {
		if i := slices.IndexFunc(snap.Nodes, func(n corev1.Node) bool { return n.Name == name }); i >= 0 {
			out = append(out, &snap.Nodes[i])
		}
	}
	return out
}

// wholeSuite returns the checks for a suspect: the checks of every baseline node, and all other checks that one probe
// answers.
func (r *Run) wholeSuite(compared []*probe.Check) []*probe.Check {
	out := slices.Clone(compared)
	for _, c := range ByOneProbe(r.picked) {
		if !slices.ContainsFunc(out, c.Is) {
			out = append(out, c)
		}
	}
	return out
}

// reportBaselines reports the answers of the baseline nodes, and what follows from them about the node.
func (r *Run) reportBaselines(all []baseline) error {
	var from, failed []string
	seen := func(node string, err error, what string) {
		switch {
		case err != nil:
			why := node + ": " + apierror.Explain(err)
			if !slices.Contains(failed, why) { // the comparison fails for the same reason as the view from outside
				failed = append(failed, why)
				r.client.Note("%s: %s", what, why)
			}
		case !slices.Contains(from, node):
			from = append(from, node)
		}
	}
	if r.view != nil {
		seen(r.view.node.Name, r.view.wait().err, "view from outside")
	}
	for _, l := range all {
		seen(l.node, l.err, "comparison")
		for _, ev := range l.events {
			if err := r.AddOf(l.node, probe.MethodBaseline, ev); err != nil {
				return err
			}
		}
	}
	for _, res := range r.fromOutside(from, failed) {
		if err := r.Add(probe.MethodBaseline, probe.Event{Type: probe.EventResult, Result: &res}); err != nil {
			return err
		}
	}
	return nil
}

// askSafely calls askBaseline. If that panics, only this answer is lost.
func (r *Run) askSafely(
	ctx context.Context, client *cluster.Client, snap *cluster.Snapshot, node *corev1.Node, compared []*probe.Check,
) (out baseline) {
	crash := probe.Recovered(func() error {
		out = r.askBaseline(ctx, client, snap, node, compared)
		return nil
	})
	if crash != nil {
		out = baseline{node: node.Name, err: crash, events: []probe.Event{Unanswered(crash)}}
	}
	return out
}

// askBaseline runs the checks on one baseline node, and reads the API about it.
func (r *Run) askBaseline(
	ctx context.Context, client *cluster.Client, snap *cluster.Snapshot, node *corev1.Node, compared []*probe.Check,
) baseline {
	out := baseline{node: node.Name}
	var theirs *cluster.Snapshot
	var unread error
	var reading probe.Workers
	reading.Go(func() {
		unread = probe.Recovered(func() (err error) {
			theirs, err = client.Beside(ctx, snap, node.Name)
			return err
		})
	})
	onNode := slices.DeleteFunc(slices.Clone(compared), func(c *probe.Check) bool { return !c.OnNode() })
	placing, placed := trace.Span(ctx, "put a probe on another node", "node", node.Name)
	session, err := r.placeOn(placing, snap, node, onNode, max(baselineStart, r.opts.StartTimeout))
	placed()
	reading.Wait()
	if err == nil {
		defer r.close(ctx, node.Name, session)
		if unread == nil {
			out.events = append(out.events, apiAbout(ctx, theirs, compared)...)
			asking, answered := trace.Span(ctx, "the other probe answers")
			err = out.answers(asking, session, r.planFor(theirs, snap, node, onNode))
			answered()
		}
	}
	out.fail(orLate(ctx, err), session != nil, orLate(ctx, unread))
	return out
}

// fail records why the node's answer is incomplete: a probe was not placed, the answer broke off, or the API data about
// the node could not be read. Without API data, the probe has no plan.
func (b *baseline) fail(err error, placed bool, unread error) {
	var ev probe.Event
	switch {
	case err != nil && placed:
		ev = Unanswered(err)
	case err != nil:
		ev = Unplaced(probe.MethodBaseline, "", err)
	case unread != nil:
		err = fmt.Errorf("the API objects of this baseline node were not read: %w", unread)
		ev = Unplaced(probe.MethodBaseline, "", err)
	default:
		return
	}
	b.err, b.events = err, append(b.events, ev)
}

// lateError reports a baseline node that did not answer in time.
type lateError time.Duration

func (e lateError) Error() string {
	return fmt.Sprintf("its answer was not complete within %v, the limit for a baseline node", time.Duration(e))
}

// orLate replaces a bare deadline error with an error that states the baseline node's limit.
func orLate(ctx context.Context, err error) error {
	late, is := errors.AsType[lateError](context.Cause(ctx))
	if is && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, late)) {
		return late
	}
	return err
}

// planFor returns the plan for a baseline node. It has the compared checks, both about the baseline node itself and
// about the diagnosed node.
func (r *Run) planFor(theirs, snap *cluster.Snapshot, node *corev1.Node, compared []*probe.Check) probe.Plan {
	plan := probe.Plan{
		Run: r.ID, Node: node.Name, Method: probe.MethodBaseline, Checks: CheckIDs(compared), Limit: r.opts.CheckTimeout,
	}
	plan.Targets, plan.Gaps = cluster.Targets(theirs)
	plan.Targets = append(plan.Targets, cluster.Outside(snap, node.Name)...)
	plan.Now = theirs.Now.Add(time.Since(theirs.Read))
	return plan
}

// apiAbout answers the API checks about a baseline node.
func apiAbout(ctx context.Context, theirs *cluster.Snapshot, compared []*probe.Check) []probe.Event {
	var out []probe.Event
	runner := probe.Runner{
		Suite: suiteapi.Checks(theirs), Host: &probe.Host{Node: theirs.Node.Name}, Version: probe.Release,
	}
	for _, c := range compared {
		if c.From != probe.FromAPI {
			continue
		}
		runner.Run(ctx, probe.Plan{Checks: []string{c.ID}}, func(ev probe.Event) {
			if ev.Result != nil {
				out = append(out, ev)
			}
		})
	}
	return out
}

// answers collects the results of the probe on a baseline node.
func (b *baseline) answers(ctx context.Context, session *injector.Session, plan probe.Plan) error {
	err := session.Ask(ctx, probe.Request{Type: probe.RequestPlan, Plan: &plan}, func(ev probe.Event) bool {
		b.events = append(b.events, ev)
		return true
	})
	if err != nil {
		return fmt.Errorf("the probe on %s: %w", b.node, err)
	}
	return nil
}
