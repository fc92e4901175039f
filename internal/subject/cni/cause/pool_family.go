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

// ipamFamilyMissing matches a plugin that requests addresses of a family without a pool.
func ipamFamilyMissing(f diagnose.Findings) []diagnose.Case {
	quoted := diagnose.Keep(evidence.WaitingPods(f, facts.StartsAddresses),
		func(r diagnose.Finding) bool { return lacksFamily(f, r) })
	if len(quoted) == 0 {
		return requestedWithoutPool(f)
	}
	r := quoted[0]
	family, n := diagnose.FamilyOf(r), diagnose.Num(quoted, facts.Pods)
	lacking := diagnose.FamilyName(family)
	file, weight := "/etc/cni/net.d/10-calico.conflist", diagnose.Strong
	c := diagnose.Case{About: lacking, Family: family, Covers: evidence.PodsUnconnected}
	if of := requestsFamily(f, lacking); len(of) > 0 {
		weight, file = diagnose.Proof, of[0].Facts.Str(probe.FactFile)
		c.For = diagnose.Shows(of)
	}
	c.For = append(diagnose.Clues(weight, quoted), c.For...)
	c.Args = map[string]diagnose.Arg{"lacking": diagnose.OwnArg(lacking), "file": diagnose.FileArg(file)}
	requests := fmt.Sprintf("the CNI configuration (%s) requests an %s address for each", file, lacking)
	if weight < diagnose.Proof {
		requests = fmt.Sprintf("the CNI configuration, which was not read, probably requests an %s address for each", lacking)
	}
	c.Says = fmt.Sprintf("no address on {node} for %s: %s, and no enabled %s pool serves the node; the pool of the other family is %s",
		diagnose.CountOf(n, "new pod"), requests, lacking, strings.Join(diagnose.ListOf(r, facts.OtherPools), ", "))
	if bad := diagnose.Keep(f.Failed(cni.CNIConfig.ID), diagnose.Because(cni.CNIFamily)); len(bad) > 0 {
		c.Covers = append(slices.Clone(c.Covers), diagnose.Covers(cni.CNIConfig.ID)...)
	}
	return []diagnose.Case{c}
}

// requestedWithoutPool is the case without a failed pod: only the configuration shows the fault.
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

// lacksFamily reports whether pods get no address because the node has a pool for one family only. The API shows the
// pools. If the CNI configuration was read, it must request the missing family.
func lacksFamily(f diagnose.Findings, r diagnose.Finding) bool {
	if r.Facts.Str(facts.Short) != facts.ShortNoPool || len(diagnose.ListOf(r, facts.OtherPools)) == 0 {
		return false
	}
	known := diagnose.Keep(f.Of(cni.CNIConfig.ID),
		func(c diagnose.Finding) bool { return len(diagnose.ListOf(c, cni.FactAssigns)) > 0 })
	return len(known) == 0 || len(requestsFamily(f, diagnose.FamilyName(diagnose.FamilyOf(r)))) > 0
}

// requestsFamily returns the findings of cni-config whose configuration requests addresses of a family.
func requestsFamily(f diagnose.Findings, family string) []diagnose.Finding {
	return diagnose.Keep(f.Of(cni.CNIConfig.ID), func(r diagnose.Finding) bool {
		return slices.Contains(diagnose.ListOf(r, cni.FactAssigns), family)
	})
}

// hasRoom reports whether IPAM has a free address according to the API. The pod's message is then stale or about
// another fault.
func hasRoom(f diagnose.Findings, r diagnose.Finding) bool {
	short, known := r.Facts[facts.Short]
	return known && short == "" || len(diagnose.ListOf(r, facts.OtherPools)) > 0 && !lacksFamily(f, r)
}
