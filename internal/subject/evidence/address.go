package evidence

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// setMethod is the fix for every wrong address: set-method in fixes.md.
var setMethod = probe.Fix{
	Says: "Configure how Calico finds the right address: {method}{since}.",
	Manifest: []string{
		"kubectl get nodes -o custom-columns='NODE:.metadata.name,INTERNAL:.status.addresses[?(@.type==\"InternalIP\")].address,IPV4:.metadata.annotations.projectcalico\\.org/IPv4Address,IPV6:.metadata.annotations.projectcalico\\.org/IPv6Address'",
		"kubectl -n {namespace} set env daemonset/{daemonset} {variable}={method}",
		"kubectl -n {namespace} rollout status daemonset/{daemonset}",
	},
	Operator: []string{
		`kubectl patch installation default --type=merge -p '{"spec":{"calicoNetwork":{"{field}":{{setting}}}}}'`,
		"kubectl -n {namespace} rollout status daemonset/{daemonset}",
	},
	Radius: "every node; calico-node restarts one node at a time, and detects the node's address again. First check that {method} picks the InternalIP on every node (ip-autodetect shows it). During the restart, a node's sessions drop for seconds; pods keep running",
}

// MethodToSet replaces a method in commands that only a node reports. The shell stops unless METHOD is set.
const MethodToSet = `"${METHOD:?first set it}"`

// MethodFor returns the setting that picks the InternalIP. Of the methods that the probe tried on the node, it prefers
// a method that stays valid when nodes are added.
func MethodFor(family int, internal string, auto diagnose.Finding) map[string]diagnose.Arg {
	args := map[string]diagnose.Arg{"variable": diagnose.OwnArg("IP_AUTODETECTION_METHOD"),
		"field": diagnose.OwnArg("nodeAddressAutodetectionV4")}
	if family == 6 {
		args = map[string]diagnose.Arg{"variable": diagnose.OwnArg("IP6_AUTODETECTION_METHOD"),
			"field": diagnose.OwnArg("nodeAddressAutodetectionV6")}
	}
	best := ""
	tried := diagnose.TextsOf(auto, link.FactAlternatives)
	for _, kind := range []string{"kubernetes-internal-ip", "cidr=", "can-reach=", "interface="} {
		for method, picked := range tried {
			if strings.HasPrefix(method, kind) && settable(method) &&
				(picked == internal || strings.HasPrefix(picked, internal+" ")) &&
				(best == "" || strings.HasPrefix(best, kind) && method < best) {
				best = method
			}
		}
	}
	args["since"] = diagnose.OwnArg("")
	if best == "" { // no probe ran on the node
		best = "kubernetes-internal-ip"
		args["since"] = diagnose.OwnArg(" (from Calico v3.22; before, can-reach= with the address of another node)")
	}
	name, _, _ := strings.Cut(best, "=")
	// A method that one node reports is untrusted, because the setting applies to all nodes.
	args["method"] = diagnose.NodesWord(best, MethodToSet)
	if name == "kubernetes-internal-ip" {
		args["method"] = diagnose.OwnArg(best)
	}
	// The operator rejects an Installation with two methods for a family.
	var fields []string
	for _, field := range []string{"firstFound", "kubernetes", "interface", "skipInterface", "canReach", "cidrs"} {
		set := "null"
		switch {
		case name == "kubernetes-internal-ip" && field == "kubernetes":
			set = `"NodeInternalIP"`
		case name == "cidr" && field == "cidrs":
			set = `["VALUE"]`
		case name == "can-reach" && field == "canReach", name == "interface" && field == "interface":
			set = `"VALUE"`
		}
		fields = append(fields, `"`+field+`":`+set)
	}
	args["setting"] = diagnose.OwnArg(strings.Join(fields, ","))
	return args
}

// settable reports whether a method is safe in a command. It must be a method that this program tries on a node. Its
// value must not contain characters that a shell or JSON interprets.
func settable(method string) bool {
	name, value, _ := strings.Cut(method, "=")
	switch name {
	case "kubernetes-internal-ip":
		return value == ""
	case "cidr":
		return diagnose.IsBlock(value)
	case "can-reach":
		return diagnose.AddressArg(value).Typed() == value
	case "interface":
		device, whole := strings.CutSuffix(strings.TrimPrefix(value, "^"), "$")
		return whole && diagnose.IsWord(device)
	}
	return false
}

// AllElsewhere returns registrations that differ from the InternalIP on all nodes, if their network does not work: no
// session over it is up, and another node answers at its InternalIP. Without BGP, no node answers over it.
func AllElsewhere(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(f.Of(facts.CheckIPRegistered), func(r diagnose.Finding) bool {
		registered, internal := r.Facts.Str(facts.Registered), r.Facts.Str(facts.Internal)
		return r.Status == probe.Info && r.Facts.Str(probe.FactReason) == "" && registered != "" && internal != "" &&
			registered != internal && len(Alive(f, diagnose.FamilyOf(r))) > 0
	})
}

// Alive returns answered pings of nodes at an address other than their session's, if every session of the family is
// down. Without sessions, it uses Mute.
func Alive(f diagnose.Findings, family int) []diagnose.Finding {
	var out []diagnose.Finding
	sessions := diagnose.Keep(f.Of(bgp.BGPSession.ID), func(r diagnose.Finding) bool {
		return diagnose.FamilyOf(r) == family && r.Facts.Str(bgp.FactPeer) != ""
	})
	if len(sessions) == 0 {
		_, out = Mute(f, family)
		return out
	}
	for _, s := range sessions {
		peer := s.Facts.Str(bgp.FactPeer)
		if !diagnose.IsBad(s.Status) {
			return nil
		}
		name := diagnose.NodeOf(s)
		out = append(out, diagnose.Keep(f.Of(link.NodePing.ID), func(r diagnose.Finding) bool {
			return name != "" && r.Status == probe.OK && diagnose.FamilyOf(r) == family && diagnose.NodeOf(r) == name &&
				r.Target != name+" "+peer
		})...)
	}
	return out
}

// Mute returns the failed pings of nodes that answer at another address of the family, and those answers. It returns
// nothing if packets pass between the nodes' pods, or if a node answers at all of its addresses: its registered address
// is one of them.
func Mute(f diagnose.Findings, family int) (failed, answered []diagnose.Finding) {
	for _, check := range []string{pod.PodPing.ID, pod.PodTCP.ID} {
		if slices.ContainsFunc(f.Of(check), func(r diagnose.Finding) bool {
			return r.Status == probe.OK && diagnose.FamilyOf(r) == family && diagnose.NodeOf(r) != "" &&
				diagnose.NodeOf(r) != f.Node
		}) {
			return nil, nil
		}
	}
	of := map[string][]diagnose.Finding{}
	for _, r := range f.Of(link.NodePing.ID) {
		if name := diagnose.NodeOf(r); name != "" && diagnose.FamilyOf(r) == family {
			of[name] = append(of[name], r)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		no := diagnose.Keep(of[name], func(r diagnose.Finding) bool { return r.Status == probe.Fail })
		yes := diagnose.Keep(of[name], func(r diagnose.Finding) bool { return r.Status == probe.OK })
		switch {
		case len(no) == 0 && len(yes) > 0:
			return nil, nil
		case len(yes) > 0:
			failed, answered = append(failed, no...), append(answered, yes...)
		}
	}
	return failed, answered
}

// WrongAddresses returns the registrations of a family, of this node and of others, that send sessions to a wrong
// address.
func WrongAddresses(f diagnose.Findings, family int) []diagnose.Finding {
	return diagnose.Keep(append(AllElsewhere(f), f.Bad(facts.CheckIPRegistered)...), func(r diagnose.Finding) bool {
		reason := r.Facts.Str(probe.FactReason)
		return diagnose.FamilyOf(r) == family &&
			(r.Status == probe.Info || reason == facts.ReasonOutside || reason == facts.ReasonPeer)
	})
}

// Addressless reports whether the kernel's neighbour table has no MAC address for a finding's target.
func Addressless(r diagnose.Finding) bool {
	return slices.Contains([]string{"incomplete", "failed"}, r.Facts.Str(link.FactNeighbour))
}

// DetectedTwice adds that Calico's detection picks the same address on both nodes. This is typical of VirtualBox VMs,
// whose first NICs all have the same address.
func DetectedTwice(f diagnose.Findings, c *diagnose.Case, peer, address string) {
	picks := f.With(link.IPAutodetect.ID, link.FactPicked, address)
	there := f.At(peer).With(facts.CheckIPRegistered, facts.Registered, address)
	if len(picks) == 0 || len(there) == 0 || there[0].Facts.Str(facts.Internal) == address { // the other node may own it
		return
	}
	internal, _, _ := strings.Cut(diagnose.TextsOf(picks[0], link.FactAlternatives)["kubernetes-internal-ip"], " ")
	if internal == "" || internal == address {
		return
	}
	c.Says += fmt.Sprintf("; it is not an InternalIP: calico-node detects it on both nodes with %s", picks[0].Facts.Str(link.FactMethod))
	c.For = append(c.For, diagnose.Suggests(picks[:1])...)
	c.Fix = &setMethod
	maps.Copy(c.Args, MethodFor(c.Family, internal, picks[0]))
	c.Covers = slices.Concat(c.Covers, CalicoDown, diagnose.Covers(facts.CheckIPRegistered))
}

// OldNode reports whether a Node without a live kubelet is registered with this node's InternalIP.
func OldNode(f diagnose.Findings, peer, address string) bool {
	return slices.ContainsFunc(f.With(facts.CheckIPRegistered, probe.FactReason, facts.ReasonTaken),
		func(r diagnose.Finding) bool {
			return r.Facts.Str(probe.FactNode) == peer && r.Facts.Str(facts.Internal) == address &&
				r.Facts.Str(probe.FactNodeState) == probe.NodeSilent
		})
}
