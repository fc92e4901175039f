package cause

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// mtuNodeSmall matches a node that full-size packets from another node do not reach.
func mtuNodeSmall(f diagnose.Findings) []diagnose.Case {
	hangs := slices.Concat(evidence.NotPlaced(f, facts.ReasonAttach), f.Failed(pod.PodMTU.ID),
		f.Failed(datastore.DatastoreLatency.ID), f.Failed(facts.CheckNodeLease))
	if len(evidence.KubeletSaid(f, facts.UnreadyRuntime,
		facts.UnreadyPLEG)) == 0 { // the kubelet may only wait for the API
		hangs = slices.Concat(hangs, evidence.NotPlaced(f, facts.ReasonRuntime), evidence.NotPlaced(f, facts.ReasonKubelet))
	}
	lost := func(r diagnose.Finding) bool {
		_, measured := r.Facts.Num(probe.FactPasses)
		return measured && diagnose.NodeOf(r) == f.Node
	}
	for _, r := range diagnose.Keep(f.Elsewhere(link.NeighbourReach.ID), lost) {
		smaller := smallerThan(f, r)
		if len(hangs)+len(smaller) == 0 { // a node may drop only large pings
			continue
		}
		return []diagnose.Case{mtuCase(f, r, smaller, hangs)}
	}
	return nil
}

// smallerThan returns the node's interfaces with a smaller MTU than the packets that another node sends to it in that
// family.
func smallerThan(f diagnose.Findings, r diagnose.Finding) []diagnose.Finding {
	promised, _ := r.Facts.Num(probe.FactPromised)
	return diagnose.Keep(f.Of(link.NodeUplink.ID), func(own diagnose.Finding) bool {
		mtu, known := own.Facts.Num(probe.FactLinkMTU)
		return known && mtu < promised && diagnose.FamilyOf(own) == diagnose.FamilyOf(r)
	})
}

// mtuCase returns the case of one node's observation. One other node's number does not prove that a healthy node's MTU
// is too small. The MTU counts if a second node also loses larger packets, or if pods of the node have a larger one.
func mtuCase(f diagnose.Findings, r diagnose.Finding, smaller, hangs []diagnose.Finding) diagnose.Case {
	passes, _ := r.Facts.Num(probe.FactPasses)
	promised, _ := r.Facts.Num(probe.FactPromised)
	says := fmt.Sprintf("from %s only packets of up to %.0f bytes reach {node}, and its interface sends up to %.0f: larger ones are lost without an ICMP error",
		r.Node, passes, promised)
	weigh, fix, device := diagnose.Shows, "", ""
	if len(smaller) > 0 {
		fix, device = "interface", smaller[0].Facts.Str(probe.FactInterface)
		own, _ := smaller[0].Facts.Num(probe.FactLinkMTU)
		says = fmt.Sprintf("%s on {node} has MTU %.0f, but %s sends packets of up to %.0f bytes there: those above %.0f are lost without an ICMP error",
			device, own, r.Node, promised, passes)
	}
	alike, whole := otherSizes(f, r)
	mtu := diagnose.CheckedArg("", false, "MTU") // another node's word alone does not become a command here
	if len(alike) > 0 || podsSendMore(f, smaller) {
		weigh, mtu = diagnose.Suggests, diagnose.NumberArg(promised)
	}
	return diagnose.Case{
		Family: diagnose.FamilyOf(r), About: diagnose.FamilyName(diagnose.FamilyOf(r)), Says: says, Fault: true,
		FixName: fix,
		For: slices.Concat(diagnose.Suggests(append([]diagnose.Finding{r}, alike...)), weigh(smaller),
			diagnose.Shows(hangs[:min(1, len(hangs))]), diagnose.Shows(f.Bad(cni.CNIMTU.ID))),
		Against: diagnose.Suggests(whole),
		Args: map[string]diagnose.Arg{"other": diagnose.NodeArg(r.Node), "device": diagnose.DeviceArg(device),
			"mtu": mtu},
		Covers: diagnose.Covers(pod.PodMTU.ID, cni.CNIMTU.ID, probe.CheckPlaced, probe.CheckAnswered,
			link.NeighbourReach.ID),
	}
}

// podsSendMore reports whether pods of the node have a larger MTU than one of its interfaces: the interface's MTU was
// then lowered after the pods started.
func podsSendMore(f diagnose.Findings, interfaces []diagnose.Finding) bool {
	for _, pods := range f.Bad(cni.CNIMTU.ID) {
		sizes, _ := pods.Facts[cni.FactPodsMTU].(map[string]any)
		for size := range sizes {
			theirs, err := strconv.ParseFloat(size, 64)
			if err == nil && slices.ContainsFunc(interfaces, func(own diagnose.Finding) bool {
				mtu, _ := own.Facts.Num(probe.FactLinkMTU)
				return mtu < theirs
			}) {
				return true
			}
		}
	}
	return false
}

// otherSizes returns what third nodes observe in the same family: alike also lose packets above the node's own MTU,
// whole lose none.
func otherSizes(f diagnose.Findings, r diagnose.Finding) (alike, whole []diagnose.Finding) {
	for _, o := range f.Elsewhere(link.NeighbourReach.ID) {
		pinged := o.Status == probe.OK && o.Facts.Str(probe.FactNode) == f.Node && o.Target == r.Target
		if !pinged || o.Node == r.Node {
			continue
		}
		if _, lost := o.Facts.Num(probe.FactPasses); !lost {
			whole = append(whole, o)
		} else if len(smallerThan(f, o)) > 0 {
			alike = append(alike, o)
		}
	}
	return alike, whole
}
