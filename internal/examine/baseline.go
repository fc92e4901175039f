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
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	suiteapi "github.com/calico-probe/calico-probe/internal/subject/suite/api"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// A healthy node starts a probe in a second and answers in a few; one that does not is no
// help, and somebody waits.
const (
	baselineLimit = 20 * time.Second
	baselineStart = 8 * time.Second
	// One to which packets are lost is asked the whole suite, and much of that runs into timeouts.
	suspectLimit = 60 * time.Second
)

// Compares tells whether baseline nodes may be asked at all.
func (r *Run) Compares(snap *cluster.Snapshot) bool {
	return snap != nil && r.opts.Baselines > 0 && r.opts.access().Asks(injector.OtherNodes) &&
		slices.ContainsFunc(r.picked, link.NeighbourReach.Is)
}

// troubled tells whether there is something to compare: a bad answer about the node, a warning that no
// cause explains, or no access method that works.
func troubled(seen diagnose.Findings, suite diagnose.Suite) bool {
	bad := slices.ContainsFunc(seen.All, func(r diagnose.Finding) bool {
		return r.Node == seen.Node && (r.Status == probe.Fail || r.Check == probe.CheckPlaced && r.Status == probe.Unknown)
	})
	return bad || len(evidence.Unreached(seen)) > 0 || len(diagnose.Explain(seen, suite).Unexplained) > 0
}

// worthComparing are the checks of a suite to ask baseline nodes: those that are bad on the
// node, how they are set where the node was asked that, what CoreDNS says there where names
// fail, and always their BGP sessions and whether they reach the node.
func worthComparing(seen diagnose.Findings, suite []*probe.Check) []*probe.Check {
	var out []*probe.Check
	for _, c := range suite {
		switch {
		case c.Is(nodestate.NodeState):
			if len(seen.Of(c.ID)) > 0 || !answeredItself(seen) { // else it may be asked that yet
				out = append(out, c)
			}
		case c.Is(logs.KubeLog) && len(seen.Bad(dns.DNSCluster.ID))+len(seen.Bad(dns.DNSExternal.ID)) > 0:
			// CoreDNS may be there
			out = append(out, c)
		case c.Is(overlay.EncapProof), // takes two probes that know of each other
			c.Is(firewall.PacketDrops): // is about what this node loses
		case c.Is(bgp.BGPSession), c.Is(link.NeighbourReach), len(seen.Bad(c.ID)) > 0 && c.From != probe.FromClient:
			out = append(out, c)
		}
	}
	return out
}

// answeredItself tells whether a probe on the node has answered anything yet.
func answeredItself(seen diagnose.Findings) bool {
	return slices.ContainsFunc(seen.All, func(r diagnose.Finding) bool {
		return r.Node == seen.Node && r.Way != injector.MethodAPI && r.Check != probe.CheckPlaced
	})
}

// preferred are the addresses of the other ends of bad BGP sessions.
func preferred(seen diagnose.Findings) []netip.Addr {
	var out []netip.Addr
	for _, r := range seen.Bad(bgp.BGPSession.ID) {
		if a, err := netip.ParseAddr(r.Facts.Str(bgp.FactPeer)); err == nil && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// baseline is what one healthy node answered.
type baseline struct {
	node   string
	events []probe.Event
	err    error // no probe could be put there, or it did not answer whole
}

// comparison waits for baseline nodes that are being asked, until all have answered or their time is over. It may
// be called as often as wanted.
type comparison func() []baseline

// heardNothing waits, and tells whether no baseline node got any answer from the node: two of
// them have to say so, or one where the API has not heard of the kubelet either.
func (wait comparison) heardNothing(kubeletSilent bool) bool {
	witnesses := 0
	for _, l := range wait() {
		asked := false
		for _, ev := range l.events {
			r := ev.Result
			if r == nil || r.Check != link.NeighbourReach.ID || r.Facts[link.FactReference] == true {
				continue
			}
			switch {
			case r.Status == probe.OK, r.Status == probe.Fail && probe.SomebodyAnswered(r.Facts.Str(probe.FactReason)):
				return false
			case r.Status == probe.Fail:
				asked = true
			}
		}
		if asked {
			witnesses++
		}
	}
	return witnesses > 1 || witnesses == 1 && kubeletSilent
}

// askBaselines asks the baseline nodes now; the result has to be waited for.
func (r *Run) askBaselines(ctx context.Context, client *cluster.Client, snap *cluster.Snapshot) comparison {
	prefer := preferred(r.Seen)
	if r.view != nil {
		prefer = append(prefer, cluster.Addresses(r.view.node)...)
	}
	suspects := r.suspects(snap)
	for _, n := range suspects {
		prefer = append(cluster.Addresses(n), prefer...)
	}
	nodes := cluster.BaselineNodes(snap, r.opts.Baselines, prefer)
	suite := r.picked
	if !slices.ContainsFunc(suite, nodestate.NodeState.Is) && !r.opts.NoFollowUp && len(r.opts.Checks) == 0 {
		suite = append(slices.Clone(suite), r.mayAsk([]diagnose.Cover{{Check: nodestate.NodeState.ID}}, snap)...)
	}
	asked := worthComparing(r.Seen, suite)
	answers := make([]baseline, len(nodes))
	limit := baselineLimit
	if len(suspects) > 0 {
		limit = suspectLimit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, lateError(limit))
	var all probe.Workers
	for i, node := range nodes {
		r.client.Progress("comparison: putting a probe on %s", node.Name)
		wanted := asked
		if slices.ContainsFunc(suspects, func(n *corev1.Node) bool { return n.Name == node.Name }) {
			wanted = r.wholeSuite(asked)
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

// suspects are the other nodes to which packets are lost without a proven cause: the reason may be on either end.
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

// wholeSuite are the checks that a node is asked which may be the reason itself: besides those that every baseline
// node is asked, all that one probe answers.
func (r *Run) wholeSuite(asked []*probe.Check) []*probe.Check {
	out := slices.Clone(asked)
	for _, c := range ByOneProbe(r.picked) {
		if !slices.ContainsFunc(out, c.Is) {
			out = append(out, c)
		}
	}
	return out
}

// reportBaselines reports what the baseline nodes answered, and what follows from it about the node.
func (r *Run) reportBaselines(all []baseline) error {
	var from, failed []string
	seen := func(node string, err error, what string) {
		switch {
		case err != nil:
			why := node + ": " + cluster.Explain(err)
			if !slices.Contains(failed, why) { // the comparison fails as the view from outside did
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
			if err := r.AddOf(l.node, injector.MethodNeighbour, ev); err != nil {
				return err
			}
		}
	}
	for _, res := range r.fromOutside(from, failed) {
		if err := r.Add(injector.MethodNeighbour, probe.Event{Type: probe.EventResult, Result: &res}); err != nil {
			return err
		}
	}
	return nil
}

// askSafely is askBaseline; a panic costs this one answer.
func (r *Run) askSafely(
	ctx context.Context, client *cluster.Client, snap *cluster.Snapshot, node *corev1.Node, asked []*probe.Check,
) (out baseline) {
	crash := probe.Recovered(func() error {
		out = r.askBaseline(ctx, client, snap, node, asked)
		return nil
	})
	if crash != nil {
		out = baseline{node: node.Name, err: crash, events: []probe.Event{Unanswered(crash)}}
	}
	return out
}

// askBaseline asks one baseline node, and the API about it.
func (r *Run) askBaseline(
	ctx context.Context, client *cluster.Client, snap *cluster.Snapshot, node *corev1.Node, asked []*probe.Check,
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
	onNode := slices.DeleteFunc(slices.Clone(asked), func(c *probe.Check) bool { return !c.OnNode() })
	session, err := r.placeOn(ctx, snap, node, onNode, baselineStart)
	reading.Wait()
	if err == nil {
		defer r.closing(node.Name, session)
		if unread == nil {
			out.events = append(out.events, apiAbout(ctx, theirs, asked)...)
			err = out.answers(ctx, session, r.planFor(theirs, snap, node, onNode))
		}
	}
	out.fail(orLate(ctx, err), session != nil, orLate(ctx, unread))
	return out
}

// fail adds why the node's answer is not whole, if it is not: no probe was placed, its answer broke off, or the API was
// not read about the node, without which its probe is not asked.
func (b *baseline) fail(err error, placed bool, unread error) {
	var ev probe.Event
	switch {
	case err != nil && placed:
		ev = Unanswered(err)
	case err != nil:
		ev = Unplaced(injector.MethodNeighbour, "", err)
	case unread != nil:
		err = fmt.Errorf("the API was not read about this baseline node: %w", unread)
		ev = Unplaced(injector.MethodNeighbour, "", err)
	default:
		return
	}
	b.err, b.events = err, append(b.events, ev)
}

// lateError is a baseline node that has not answered in its time.
type lateError time.Duration

func (e lateError) Error() string {
	return fmt.Sprintf("its answer was not complete within %v, the limit for a baseline node", time.Duration(e))
}

// orLate makes an error that only says that the time of a baseline node was over say so.
func orLate(ctx context.Context, err error) error {
	late, is := errors.AsType[lateError](context.Cause(ctx))
	if is && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, late)) {
		return late
	}
	return err
}

// planFor is what a baseline node is asked: about itself as the node in question is, and
// about that node.
func (r *Run) planFor(theirs, snap *cluster.Snapshot, node *corev1.Node, asked []*probe.Check) probe.Plan {
	plan := probe.Plan{
		Run: r.ID, Node: node.Name, Way: injector.MethodNeighbour, Checks: CheckIDs(asked), Limit: r.opts.CheckTimeout,
	}
	plan.Targets, plan.Gaps = cluster.Targets(theirs)
	plan.Targets = append(plan.Targets, cluster.Outside(snap, node.Name)...)
	plan.Now = theirs.Now.Add(time.Since(theirs.Read))
	return plan
}

// apiAbout answers those of the checks about a baseline node that the API answers.
func apiAbout(ctx context.Context, theirs *cluster.Snapshot, asked []*probe.Check) []probe.Event {
	var out []probe.Event
	runner := probe.Runner{
		Suite: suiteapi.Checks(theirs), Host: &probe.Host{Node: theirs.Node.Name}, Version: probe.Release,
	}
	for _, c := range asked {
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

// answers collects what the probe on a baseline node says.
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
