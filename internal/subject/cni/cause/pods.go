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

// ipamExhausted matches a node whose new pods get no address. The evidence is pod events. The numbers of pools and
// blocks in the API confirm or refute it, and show the reason.
func ipamExhausted(f diagnose.Findings) []diagnose.Case {
	quoted := slices.DeleteFunc(evidence.WaitingPods(f, facts.StartsAddresses),
		func(r diagnose.Finding) bool { return lacksFamily(f, r) })
	computed := diagnose.Keep(evidence.WaitingPods(f, facts.StartsUnreported),
		func(r diagnose.Finding) bool { return r.Facts.Str(facts.Short) != "" })
	own := append(evidence.LogLines(f, logs.FaultTunnelAddress), evidence.Writes(f, logs.FaultTunnelAddress)...)
	switch {
	case len(own) > 0:
		return []diagnose.Case{tunnelUnaddressed(f, own, quoted)}
	case len(quoted) > 0 && hasRoom(f, quoted[0]):
		return []diagnose.Case{addressesGone(quoted[0], diagnose.Hints(quoted))}
	case len(quoted) > 0 && quoted[0].Facts.Str(facts.Short) != "": // the numbers of IPAM agree
		return []diagnose.Case{addressesGone(quoted[0], diagnose.Proves(quoted))}
	case len(quoted) > 0:
		return []diagnose.Case{addressesGone(quoted[0], evidence.Said(quoted))}
	case len(computed) > 0:
		return []diagnose.Case{addressesGone(computed[0], diagnose.Suggests(computed))}
	}
	return nil
}

// tunnelUnaddressed is the case of calico-node without an address for the node's tunnel.
func tunnelUnaddressed(f diagnose.Findings, own, quoted []diagnose.Finding) diagnose.Case {
	c := diagnose.Case{For: slices.Concat(evidence.Written(f, own), diagnose.Hints(quoted)),
		Covers: slices.Concat(diagnose.Covers(logs.CalicoErrors.ID, logs.CalicoLog.ID), evidence.PodsUnconnected),
		Says:   "Calico's IPAM has no address for the tunnel of {node} itself: " + evidence.QuotedLine(own[0])}
	if len(evidence.LogLines(f)) > 0 { // calico-node exits at start because of it
		c.Covers = slices.Concat(c.Covers, evidence.CalicoDown, evidence.NotStarted)
	}
	return c
}

// addressesGone builds the case with the reason and its fix.
func addressesGone(r diagnose.Finding, shows []diagnose.Clue) diagnose.Case {
	n, _ := r.Facts.Num(facts.Pods)
	c := diagnose.Case{For: shows, Covers: evidence.PodsUnconnected}
	pools := strings.Join(diagnose.ListOf(r, facts.Pools), ", ")
	blocks, _ := r.Facts.Num(facts.Blocks)
	limit, _ := r.Facts.Num(facts.BlockLimit)
	why := "IPAM has no free address: " + r.Facts.Str(facts.Message)
	switch r.Facts.Str(facts.Short) {
	case facts.ShortNoPool:
		if len(diagnose.ListOf(r, facts.OtherPools)) > 0 { // the family was a guess, and the CNI configuration refutes it
			break
		}
		why = "no enabled IP pool serves this node"
		if unfit := diagnose.ListOf(r, facts.UnfitPools); len(unfit) > 0 {
			why += ": " + strings.Join(unfit, ", ")
		}
		c.FixName = "no-pool"
	case facts.ShortFull:
		why = fmt.Sprintf("all addresses of %s are allocated", pools)
		if reserved, _ := r.Facts.Num(facts.Reserved); reserved > 0 {
			why += fmt.Sprintf(", or reserved (%.0f)", reserved)
		}
	case facts.ShortLimit:
		why = fmt.Sprintf("the node's %.0f address blocks are all allocated, and its limit is %.0f", blocks, limit)
		c.FixName = "block-limit"
	case facts.ShortStrict, facts.ShortNoBlocks:
		elsewhere, _ := r.Facts.Num(facts.FreeElsewhere)
		why = fmt.Sprintf("its own blocks are full and it gets no new one; %.0f free addresses are in other nodes' blocks", elsewhere)
		if r.Facts.Str(facts.Short) == facts.ShortStrict {
			why += ", which it may not borrow (strictAffinity)"
		}
	}
	if leaked, _ := r.Facts.Num(facts.Leaked); leaked > 0 {
		why += fmt.Sprintf("; %.0f are still allocated to deleted pods", leaked)
	}
	if borrowed, _ := r.Facts.Num(facts.Borrowed); borrowed > 0 {
		why += fmt.Sprintf("; pods on other nodes have borrowed %.0f of its addresses", borrowed)
	}
	c.Says = fmt.Sprintf("no address on {node} for %s: %s", diagnose.CountOf(n, "new pod"), why)
	return c
}

// cniPluginFails matches a failing CNI plugin by the error that the kubelet quotes. A known obstacle gets a specific
// sentence and fix.
func cniPluginFails(f diagnose.Findings) []diagnose.Case {
	groups := evidence.WaitingPods(f, facts.StartsCNI)
	out := evidence.QuotedPods(groups, "the CNI plugin fails")
	if len(out) == 0 {
		return networkRefused(f)
	}
	switch groups[0].Facts.Str(facts.Obstacle) {
	case facts.ObstacleNotExecutable:
		file := groups[0].Facts.Str(facts.ObstacleAt)
		out[0].Says = fmt.Sprintf("no new pod gets a network on {node}: %s cannot be executed: its directory is mounted noexec, or its mode forbids it", file)
		out[0].Args = map[string]diagnose.Arg{"file": diagnose.FileArg(file)}
		out[0].FixName = "let-execute"
	case facts.ObstacleAuthority:
		out[0].Says = "no new pod gets a network on {node}: the CA in the CNI plugin's kubeconfig (/etc/cni/net.d/calico-kubeconfig) is not the API server's CA: " +
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
		out[0].Says = "no new pod gets a network on {node}: the API server rejects the token in the CNI plugin's kubeconfig (/etc/cni/net.d/calico-kubeconfig): " +
			groups[0].Facts.Str(facts.Message)
		out[0].For = append(out[0].For, diagnose.Shows(f.Of(cni.CNIToken.ID))...) // cni-token shows only the token's dates
		out[0].FixName = "token"
	case facts.ObstaclePool:
		pod := groups[0].Facts.Str(facts.Pod)
		namespace, _, _ := strings.Cut(pod, "/")
		out[0].Says = fmt.Sprintf("pod %s gets no address: the annotation cni.projectcalico.org/ipv4pools or ipv6pools, its own or its "+
			"namespace's, requests %s, and no enabled pool has this range", pod, groups[0].Facts.Str(facts.ObstacleAt))
		out[0].Args = map[string]diagnose.Arg{"of": diagnose.CheckedArg(namespace, diagnose.IsName(namespace), "NAMESPACE")}
		out[0].FixName = "pool"
	case "":
		out[0].Says += diff.NetworkDiffers(f)
	}
	return out
}

// networkRefused is the case of a runtime that reads Calico's configuration but reports a broken network, for example
// because of an unsupported version.
func networkRefused(f diagnose.Findings) []diagnose.Case {
	says := evidence.NotReadyNetwork(f)
	if len(says) == 0 || len(f.Failed(cni.CNIConfig.ID)) > 0 || len(diagnose.Good(f, cni.CNIConfig.ID)) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: "the runtime of {node} cannot use Calico's network configuration: " + says[0].Saw +
			diff.NetworkDiffers(f),
		For: append(diagnose.Suggests(says[:1]), diagnose.Shows(evidence.KubeletSaid(f, facts.UnreadyNetwork))...),
		Covers: append(diagnose.Covers(runtime.ContainerdHealth.ID, runtime.CRIHealth.ID, facts.CheckNodeReady,
			facts.CheckNodeTaints),
			evidence.PodsUnconnected...),
	}}
}
