package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate/diff"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// ipamExhausted is a node for whose new pods there is no address.
func ipamExhausted(f diagnose.Findings) []diagnose.Case {
	told := slices.DeleteFunc(evidence.WaitingPods(f, facts.StartsAddresses),
		func(r diagnose.Finding) bool { return lacksFamily(f, r) })
	reckoned := diagnose.Keep(evidence.WaitingPods(f, facts.StartsUnsaid),
		func(r diagnose.Finding) bool { return r.Facts.Str(facts.Short) != "" })
	own := append(evidence.LogLines(f, logs.SaysTunnelAddress), evidence.Writes(f, logs.SaysTunnelAddress)...)
	switch {
	case len(own) > 0:
		return []diagnose.Case{tunnelUnaddressed(f, own, told)}
	case len(told) > 0 && hasRoom(f, told[0]):
		return []diagnose.Case{addressesGone(told[0], diagnose.Hints(told))}
	case len(told) > 0 && told[0].Facts.Str(facts.Short) != "": // and IPAM comes to the same
		return []diagnose.Case{addressesGone(told[0], diagnose.Proves(told))}
	case len(told) > 0:
		return []diagnose.Case{addressesGone(told[0], evidence.Said(told))}
	case len(reckoned) > 0:
		return []diagnose.Case{addressesGone(reckoned[0], diagnose.Suggests(reckoned))}
	}
	return nil
}

// tunnelUnaddressed is the case of calico-node itself, which gets no address for the node's tunnel.
func tunnelUnaddressed(f diagnose.Findings, own, told []diagnose.Finding) diagnose.Case {
	c := diagnose.Case{For: slices.Concat(evidence.Written(f, own), diagnose.Hints(told)),
		Covers: slices.Concat(diagnose.Covers(logs.CalicoErrors.ID, logs.CalicoLog.ID), evidence.PodsUnconnected),
		Says:   "Calico's IPAM has no address for the tunnel of {node} itself: " + evidence.QuotedLine(own[0])}
	if len(evidence.LogLines(f)) > 0 { // the start ends over it
		c.Covers = slices.Concat(c.Covers, evidence.CalicoDown, evidence.NotStarted)
	}
	return c
}

// addressesGone says why there are none, and what to do about that.
func addressesGone(r diagnose.Finding, shows []diagnose.Clue) diagnose.Case {
	n, _ := r.Facts.Num(facts.Pods)
	c := diagnose.Case{For: shows, Covers: evidence.PodsUnconnected}
	pools := strings.Join(diagnose.ListOf(r, facts.Pools), ", ")
	blocks, _ := r.Facts.Num(facts.Blocks)
	limit, _ := r.Facts.Num(facts.BlockLimit)
	why := "IPAM has no address for them: " + r.Facts.Str(facts.Message)
	switch r.Facts.Str(facts.Short) {
	case facts.ShortNoPool:
		if len(diagnose.ListOf(r, facts.OtherPools)) > 0 { // the family is a guess that the CNI configuration refutes
			break
		}
		why = "no enabled IP pool is for this node"
		if unfit := diagnose.ListOf(r, facts.UnfitPools); len(unfit) > 0 {
			why += ": " + strings.Join(unfit, ", ")
		}
		c.FixName = "no-pool"
	case facts.ShortFull:
		why = fmt.Sprintf("every address of %s is given away", pools)
		if reserved, _ := r.Facts.Num(facts.Reserved); reserved > 0 {
			why += fmt.Sprintf(", or reserved (%.0f)", reserved)
		}
	case facts.ShortLimit:
		why = fmt.Sprintf("the node has %.0f blocks of addresses, all given away, and may have no more than %.0f", blocks, limit)
		c.FixName = "block-limit"
	case facts.ShortStrict, facts.ShortNoBlocks:
		elsewhere, _ := r.Facts.Num(facts.FreeElsewhere)
		why = fmt.Sprintf("its own blocks are full and it gets no other; %.0f free addresses are in blocks of other nodes", elsewhere)
		if r.Facts.Str(facts.Short) == facts.ShortStrict {
			why += ", from which none may be borrowed (strictAffinity)"
		}
	}
	if leaked, _ := r.Facts.Num(facts.Leaked); leaked > 0 {
		why += fmt.Sprintf("; %.0f are kept for pods that are gone", leaked)
	}
	if borrowed, _ := r.Facts.Num(facts.Borrowed); borrowed > 0 {
		why += fmt.Sprintf("; pods on other nodes have borrowed %.0f of its own", borrowed)
	}
	c.Says = fmt.Sprintf("no address on {node} for %s: %s", diagnose.CountOf(n, "new pod"), why)
	return c
}

// cniPluginFails is a CNI plugin that says what it lacks.
func cniPluginFails(f diagnose.Findings) []diagnose.Case {
	groups := evidence.WaitingPods(f, facts.StartsCNI)
	out := evidence.QuotedPods(groups, "no network from the CNI plugin")
	if len(out) == 0 {
		return networkRefused(f)
	}
	switch groups[0].Facts.Str(facts.Obstacle) {
	case facts.ObstacleNotExecutable:
		file := groups[0].Facts.Str(facts.ObstacleAt)
		out[0].Says = fmt.Sprintf("no new pod gets a network on {node}: %s may not be executed: its folder is mounted noexec, or its mode forbids it", file)
		out[0].Args = map[string]diagnose.Arg{"file": diagnose.FileArg(file)}
		out[0].FixName = "let-execute"
	case facts.ObstacleAuthority:
		out[0].Says = "no new pod gets a network on {node}: the CA in the CNI plugin's kubeconfig (/etc/cni/net.d/calico-kubeconfig) is not the API server's: " +
			groups[0].Facts.Str(facts.Message)
		out[0].FixName = "kubeconfig"
	case facts.ObstacleRights:
		namespace, account, _ := strings.Cut(groups[0].Facts.Str(facts.ObstacleAt), ":")
		out[0].Says = fmt.Sprintf("no new pod gets a network on {node}: the CNI plugin's account %s/%s lacks a right, or its ClusterRoleBinding: %s",
			namespace, account, groups[0].Facts.Str(facts.Message))
		out[0].Args = map[string]diagnose.Arg{"of": diagnose.CheckedArg(namespace, diagnose.IsName(namespace), "NAMESPACE"),
			"account": diagnose.CheckedArg(account, diagnose.IsName(account), "ACCOUNT")}
		out[0].FixName = "plugin-rights"
	case facts.ObstacleToken:
		out[0].Says = "no new pod gets a network on {node}: the API server refuses the token in the CNI plugin's kubeconfig (/etc/cni/net.d/calico-kubeconfig): " +
			groups[0].Facts.Str(facts.Message)
		out[0].For = append(out[0].For, diagnose.Shows(f.Of(cni.CNIToken.ID))...) // which tells its time alone
		out[0].FixName = "token"
	case facts.ObstaclePool:
		pod := groups[0].Facts.Str(facts.Pod)
		namespace, _, _ := strings.Cut(pod, "/")
		out[0].Says = fmt.Sprintf("pod %s gets no address: its annotation cni.projectcalico.org/ipv4pools or ipv6pools, or its "+
			"namespace's, asks for %s, and no pool with this range is there and enabled", pod, groups[0].Facts.Str(facts.ObstacleAt))
		out[0].Args = map[string]diagnose.Arg{"of": diagnose.CheckedArg(namespace, diagnose.IsName(namespace), "NAMESPACE")}
		out[0].FixName = "pool"
	case "":
		out[0].Says += diff.NetworkDiffers(f)
	}
	return out
}

// networkRefused is the case of a runtime that reads Calico's configuration and says that its network does not work,
// such as for a version that it does not know.
func networkRefused(f diagnose.Findings) []diagnose.Case {
	says := evidence.NotReadyNetwork(f)
	if len(says) == 0 || len(f.Failed(cni.CNIConfig.ID)) > 0 || len(diagnose.Good(f, cni.CNIConfig.ID)) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: "the runtime of {node} reads Calico's network configuration and does not get along with it: " + says[0].Saw +
			diff.NetworkDiffers(f),
		For: append(diagnose.Suggests(says[:1]), diagnose.Shows(evidence.KubeletSaid(f, facts.UnreadyNetwork))...),
		Covers: append(diagnose.Covers(runtime.ContainerdHealth.ID, runtime.CRIHealth.ID, facts.CheckNodeReady,
			facts.CheckNodeTaints),
			evidence.PodsUnconnected...),
	}}
}
