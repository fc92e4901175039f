package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// ipamFamilyMissing is a plugin that wants an address of a family without a pool.
var ipamFamilyMissing = &diagnose.Rule{
	ID: "ipam-family-missing", Layer: diagnose.LayerCalico,
	Title: "the CNI plugin requests an IP family that no IP pool serves",
	Doc: `calico-ipam assigns each pod an IPv4 address unless assign_ipv4 is "false" in the CNI configuration, and an IPv6 address where assign_ipv6 is "true". A pod gets both or none. Where no enabled pool of a requested family serves the node, every new pod fails with "no configured Calico pools for node" or "failed to request IPv6 addresses", however many addresses the other family has left (projectcalico/cni-plugin#598). It happens when the CNI configuration is changed to dual stack before the pool exists, or when the pool is disabled or its nodeSelector leaves the node out.
Told from pools that are full by the count of pools and blocks in the API; from a namespaceSelector of a pool by the CNI configuration, which requests the family.`,
	Fix: probe.Fix{
		Says: "Create or enable an {lacking} pool for this node, or stop requesting {lacking} addresses in the CNI configuration.",
		Manifest: append([]string{"ssh {node} grep -n assign_ipv {file}",
			"kubectl -n {namespace} get configmap calico-config -o yaml | grep -n assign_ipv"}, lookAtIPAM...),
		Operator: []string{"kubectl get installation default -o jsonpath='{.spec.calicoNetwork.ipPools}'  # the operator sets assign_ipv4 and assign_ipv6 by these pools"},
		OnlyIf: []probe.Conditional{
			{If: "pods need {lacking} addresses, and a range is free that nothing else in your network uses",
				Manifest: []string{"calicoctl create -f pool.yaml  # an IPPool of that range"}},
			{If: "pods need no {lacking} addresses: set assign_ipv6 (or assign_ipv4) to \"false\" in cni_network_config, then restart calico-node, whose install-cni writes the file",
				Manifest: []string{"kubectl -n {namespace} edit configmap calico-config", evidence.RestartCalico}},
		},
		Radius: "reading changes nothing; a new pool touches no pod that runs; " + evidence.RestartRadius,
	},
	RuledOut: []string{cni.CNIToken.ID, facts.CheckDatastoreReady, facts.CheckCalicoPod},
	Explains: []string{"ipam-exhausted", "cni-plugin-fails"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		told := diagnose.Keep(evidence.WaitingPods(f, facts.StartsAddresses),
			func(r diagnose.Finding) bool { return lacksFamily(f, r) })
		if len(told) == 0 {
			return requestedWithoutPool(f)
		}
		r := told[0]
		family, n := diagnose.FamilyOf(r), diagnose.Num(told, facts.Pods)
		lacking := diagnose.FamilyName(family)
		file, weight := "/etc/cni/net.d/10-calico.conflist", diagnose.Strong
		c := diagnose.Case{About: lacking, Family: family, Covers: evidence.PodsUnconnected}
		if asks := asksFamily(f, lacking); len(asks) > 0 {
			weight, file = diagnose.Proof, asks[0].Facts.Str(probe.FactFile)
			c.For = diagnose.Shows(asks)
		}
		c.For = append(diagnose.Clues(weight, told), c.For...)
		c.Args = map[string]diagnose.Arg{"lacking": diagnose.OwnArg(lacking), "file": diagnose.FileArg(file)}
		requests := fmt.Sprintf("the CNI configuration (%s) requests an %s address for each", file, lacking)
		if weight < diagnose.Proof {
			requests = fmt.Sprintf("the CNI configuration, which was not read, probably requests an %s address for each", lacking)
		}
		c.Says = fmt.Sprintf("%s on {node} get no address: %s, and no enabled %s pool serves the node; the pool of the other family is %s",
			evidence.CountOf(n, "new pod"), requests, lacking, strings.Join(diagnose.ListOf(r, facts.OtherPools), ", "))
		if bad := diagnose.Keep(f.Failed(cni.CNIConfig.ID), diagnose.Because(cni.CNIFamily)); len(bad) > 0 {
			c.Covers = append(slices.Clone(c.Covers), diagnose.Covers(cni.CNIConfig.ID)...)
		}
		return []diagnose.Case{c}
	},
}

// requestedWithoutPool is the case in which no pod has met it yet.
func requestedWithoutPool(f diagnose.Findings) []diagnose.Case {
	bad := diagnose.Keep(f.Failed(cni.CNIConfig.ID), diagnose.Because(cni.CNIFamily))
	i := slices.IndexFunc([]int{4, 6}, func(family int) bool {
		return len(bad) > 0 && slices.Contains(diagnose.ListOf(bad[0], cni.FactLacking), diagnose.FamilyName(family))
	})
	if i < 0 {
		return nil
	}
	lacking, file := diagnose.FamilyName(4+2*i), bad[0].Facts.Str(probe.FactFile)
	return []diagnose.Case{{
		About: lacking, For: diagnose.Proves(bad), Covers: slices.Concat(evidence.PodsUnconnected,
			diagnose.Covers(cni.CNIConfig.ID)),
		Args: map[string]diagnose.Arg{"lacking": diagnose.OwnArg(lacking), "file": diagnose.FileArg(file)},
		Says: fmt.Sprintf("no new pod gets a network on {node}: the CNI configuration (%s) requests an %s address for each, and Calico has no enabled %s pool",
			file, lacking, lacking),
	}}
}

// lacksFamily reports whether pods get no address because one family has no pool for the node while the other has: by
// the API, and unless the CNI configuration does not request that family.
func lacksFamily(f diagnose.Findings, r diagnose.Finding) bool {
	if r.Facts.Str(facts.Short) != facts.ShortNoPool || len(diagnose.ListOf(r, facts.OtherPools)) == 0 {
		return false
	}
	known := diagnose.Keep(f.Of(cni.CNIConfig.ID),
		func(c diagnose.Finding) bool { return len(diagnose.ListOf(c, cni.FactAssigns)) > 0 })
	return len(known) == 0 || len(asksFamily(f, diagnose.FamilyName(diagnose.FamilyOf(r)))) > 0
}

// asksFamily are the answers about a CNI configuration that requests addresses of a family.
func asksFamily(f diagnose.Findings, family string) []diagnose.Finding {
	return diagnose.Keep(f.Of(cni.CNIConfig.ID), func(r diagnose.Finding) bool {
		return slices.Contains(diagnose.ListOf(r, cni.FactAssigns), family)
	})
}

// hasRoom reports whether IPAM has an address for a pod by the API's own numbers: what a message says of an earlier
// try does not hold any more, or is about something else.
func hasRoom(f diagnose.Findings, r diagnose.Finding) bool {
	short, known := r.Facts[facts.Short]
	return known && short == "" || len(diagnose.ListOf(r, facts.OtherPools)) > 0 && !lacksFamily(f, r)
}
