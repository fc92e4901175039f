package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
)

const peersDoc = `Lists the other nodes, the worst first, with readiness, address, the addresses that Calico
registered for the node, and its BGP session with this node. The session is from the last run
of bgp-session. If bgp-session has not run yet, it runs now.`

func (c *Session) peersCommand() *prompt.Command {
	return &prompt.Command{Name: "peers", Short: "list the other nodes, and the BGP session with each", Doc: peersDoc, Run: c.peersOf}
}

// peerRow is a node in the output of peers.
type peerRow struct {
	name, ready, address, calico, bgp string
	bad                               int // larger = worse
}

func (c *Session) peersOf(ctx context.Context, call *prompt.Call) error {
	s := c.at
	_, snap, err := s.Snapshot(ctx)
	if err != nil {
		return err
	}
	if snap == nil {
		return errors.New("peers needs the API, which --via local does not use")
	}
	id := bgp.BGPSession.ID
	if answers, _ := s.answers.Of(id); len(answers) == 0 {
		if _, err := c.askNow(ctx, s, []string{id}); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	answers, at := s.answers.Of(id)
	w := tabwriter.NewWriter(call.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tREADY\tADDRESS\tCALICO\tBGP FROM HERE")
	for _, r := range peerRows(snap, answers) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.name, r.ready, probe.OneLine(r.address), r.calico, probe.OneLine(r.bgp))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(answers) == 0 {
		return nil
	}
	for _, r := range answers {
		if r.Facts.Str(bgp.FactPeer) == "" && r.Status != probe.OK {
			if _, err := fmt.Fprintf(call.Out, "%s %s %s: %s\n", r.Status, id, probe.OneLine(r.Target),
				probe.OneLine(r.Saw)); err != nil {
				return err
			}
		}
	}
	_, err = fmt.Fprintf(call.Out, "BGP as seen on %s %v ago; 'run %s' checks again\n", s.opts.Node, time.Since(at).Round(time.Second), id)
	return err
}

// peerRows returns a row for each other node, the worst first.
func peerRows(snap *cluster.Snapshot, answers []probe.Result) []peerRow {
	var out []peerRow
	for _, n := range snap.Nodes {
		if n.Name == snap.Node.Name {
			continue
		}
		row := peerRow{name: n.Name, ready: "unknown", address: "-", calico: "-"}
		row.bad = len(probe.Statuses())
		for _, cond := range n.Status.Conditions {
			switch {
			case cond.Type != corev1.NodeReady:
			case cond.Status == corev1.ConditionTrue:
				row.ready, row.bad = "yes", 0
			case cond.Status == corev1.ConditionFalse:
				row.ready = "no"
			default:
				row.ready = "unknown: its kubelet is silent"
			}
		}
		if n.Spec.Unschedulable {
			row.ready += ", cordoned"
		}
		for _, a := range cluster.InternalIPs(&n) {
			row.address = joinedBy(row.address, a.String())
		}
		for _, t := range cluster.Self(&n) {
			row.calico = joinedBy(row.calico, t.Addr.String())
		}
		var worst int
		row.bgp, worst = sessionWith(n.Name, answers)
		row.bad += worst
		out = append(out, row)
	}
	slices.SortStableFunc(out, func(a, b peerRow) int {
		return cmp.Or(cmp.Compare(b.bad, a.bad), cmp.Compare(a.name, b.name))
	})
	return out
}

func joinedBy(list, one string) string {
	switch {
	case list == "-":
		return one
	case slices.Contains(strings.Split(list, ", "), one):
		return list
	}
	return list + ", " + one
}

// sessionWith describes the BGP session with a node, for both families, and returns how bad it is.
func sessionWith(node string, answers []probe.Result) (text string, bad int) {
	var parts, peers []string
	heard := false
	for _, r := range answers {
		heard = heard || r.Status != probe.Unknown
		if r.Facts.Str(probe.FactNode) != node {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s: %s", r.Status, r.Saw))
		peers = append(peers, r.Facts.Str(bgp.FactPeer))
		bad = max(bad, len(probe.Statuses())-slices.Index(probe.Statuses(), r.Status))
	}
	if len(parts) > 1 { // one per family
		for i, peer := range peers {
			parts[i] = strings.TrimSpace(peer + " " + parts[i])
		}
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, "; "), bad
	case len(answers) == 0:
		return "not checked", 0
	case !heard:
		return "unknown", 0
	}
	return "none", 0
}
