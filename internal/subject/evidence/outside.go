package evidence

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
)

// ReasonUnseen is the reason of a neighbour-reach result for a node that no other node tested.
const ReasonUnseen = "unseen"

// Unseen returns why no other node tested this node. It returns "" if a node did or no test was planned.
func Unseen(f diagnose.Findings) string {
	for _, r := range f.With(link.NeighbourReach.ID, probe.FactReason, ReasonUnseen) {
		return r.Saw
	}
	return ""
}

// Unreached returns the results of other nodes that cannot reach this node: its kubelet, a pod on it, or a NodePort at
// its address. It omits targets that the other node also cannot reach elsewhere, or has no route to.
func Unreached(f diagnose.Findings) []diagnose.Finding {
	f = f.Indexed() // other nodes can send many results
	var out []diagnose.Finding
	for _, r := range f.Elsewhere(link.NeighbourReach.ID) {
		port, _ := r.Facts.Num(probe.FactPort)
		pod := strings.HasPrefix(r.Target, f.Node+" pod ")
		if failsToReach(f, r) && (pod || port == KubeletPort && len(third(f, r, probe.Fail)) == 0) {
			out = append(out, r)
		}
	}
	for _, r := range f.Elsewhere(service.ServiceNodePort.ID) {
		if failsToReach(f, r) && len(sameService(f, r)) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// failsToReach reports whether another node failed to reach this one, for a reason outside that node.
func failsToReach(f diagnose.Findings, r diagnose.Finding) bool {
	return r.Status == probe.Fail && diagnose.NodeOf(r) == f.Node && diagnose.ReasonOf(r) != NoRoute
}

// reachedBy reports whether another node reaches the same target. Then one of the two nodes is at fault or lies.
func reachedBy(f diagnose.Findings, r diagnose.Finding) bool {
	return slices.ContainsFunc(f.Elsewhere(r.Check), func(o diagnose.Finding) bool {
		return o.Node != r.Node && o.Target == r.Target && o.Status == probe.OK
	})
}

// third returns the same node's results about the kubelet of a third node that have a status.
func third(f diagnose.Findings, r diagnose.Finding, status probe.Status) []diagnose.Finding {
	return diagnose.Keep(f.At(r.Node).Of(r.Check), func(o diagnose.Finding) bool {
		return o.Facts[link.FactReference] == true && o.Status == status && diagnose.FamilyOf(o) == diagnose.FamilyOf(r)
	})
}

// sameService returns the same node's good results about the same NodePort at other nodes.
func sameService(f diagnose.Findings, r diagnose.Finding) []diagnose.Finding {
	service, _, _ := strings.Cut(r.Target, " ")
	return diagnose.Keep(f.At(r.Node).Of(r.Check), func(o diagnose.Finding) bool {
		return o.Status == probe.OK && diagnose.NodeOf(o) != f.Node && strings.HasPrefix(o.Target, service+" ") &&
			diagnose.FamilyOf(o) == diagnose.FamilyOf(r)
	})
}

// The places of a node that other nodes cannot reach, as targets of neighbour-reach findings.
const (
	closedKubelet = "kubelet"
	closedPods    = "pods"
	closedPorts   = "node-ports"
)

// Closed sorts the findings of Unreached by the kind of place.
func Closed(unreached []diagnose.Finding) map[string][]diagnose.Finding {
	out := map[string][]diagnose.Finding{}
	for _, r := range unreached {
		kind := closedKubelet
		switch {
		case r.Check == service.ServiceNodePort.ID:
			kind = closedPorts
		case strings.Contains(r.Target, " pod "):
			kind = closedPods
		}
		out[kind] = append(out[kind], r)
	}
	return out
}

// Closes maps a failing check to a place that is closed to other nodes for the same reason, so that one cause explains
// both.
var Closes = map[string]diagnose.Cover{
	service.ServiceNodePort.ID: closed(closedPorts), service.ServiceClusterIP.ID: closed(closedPorts),
	pod.PodPing.ID: closed(closedPods), pod.PodTCP.ID: closed(closedPods), kubelet.KubeletHealth.ID: closed(closedKubelet),
}

// closed covers the other nodes' reports about a kind of place.
func closed(kind string) diagnose.Cover {
	return diagnose.Cover{Check: link.NeighbourReach.ID, About: kind}
}

// Grade returns the severity if other nodes cannot reach one kind of place. One witness proves nothing, and the program
// behind a NodePort may belong to a tenant. A network may block kubelets for other nodes on purpose. So a blocked
// kubelet is only a warning, and only if the kubelet of a node of the same role is reachable. Without such a node, the
// witness must have the same role.
func Grade(f diagnose.Findings, kind string, unreached []diagnose.Finding, sameRole bool) probe.Status {
	f = f.Indexed()
	switch {
	case slices.ContainsFunc(unreached, func(r diagnose.Finding) bool { return reachedBy(f, r) }):
		return probe.Warn
	case kind == closedPods && len(Askers(unreached)) > 1:
		return probe.Fail
	case kind == closedKubelet && !sameRole &&
		!slices.ContainsFunc(unreached, func(r diagnose.Finding) bool { return len(third(f, r, probe.OK)) > 0 }):
		return probe.Info
	}
	return probe.Warn
}

// Places lists the places on this node that other nodes cannot reach, each with the other node and the reason.
func Places(f diagnose.Findings, unreached []diagnose.Finding) string {
	var out []string
	for _, r := range unreached {
		place := strings.TrimPrefix(r.Target, f.Node+" ") + " from " + r.Node
		if why := diagnose.ReasonOf(r); why != "" {
			place += " (" + why + ")"
		}
		if !slices.Contains(out, place) {
			out = append(out, place)
		}
	}
	if more := len(out) - MostNamed; more > 0 {
		out = append(out[:MostNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, ", ")
}
