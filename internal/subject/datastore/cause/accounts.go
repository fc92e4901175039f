package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// accountGone matches a token whose ServiceAccount was deleted or recreated.
func accountGone(f diagnose.Findings) []diagnose.Case {
	return slices.Concat(cniAccountGone(f), nodeAccountGone(f))
}

// cniAccountGone is the case of the CNI plugin's account: it is missing, or its ID differs from the token's.
func cniAccountGone(f diagnose.Findings) []diagnose.Case {
	of := f.With(facts.CheckAccounts, facts.AccountOf, facts.AccountCNI)
	if len(of) == 0 {
		return nil
	}
	name, uid := of[0].Facts.Str(facts.Account), of[0].Facts.Str(facts.AccountUID)
	subject := "system:serviceaccount:" + name
	tokens := diagnose.Keep(f.Of(cni.CNIToken.ID),
		func(r diagnose.Finding) bool { return r.Facts.Str(cni.FactSubject) != "" })
	if len(tokens) > 0 && tokens[0].Facts.Str(cni.FactSubject) != subject {
		return nil // the token is of another account
	}
	c := diagnose.Case{About: name, For: diagnose.Proves(of), Covers: append(diagnose.Covers(facts.CheckAccounts),
		evidence.PodsUnconnected...), Fault: len(tokens) > 0}
	if diagnose.ReasonOf(of[0]) == facts.AccountGone {
		if len(tokens) == 0 { // without a token, only Calico's version shows which account the plugin uses
			c.For = append(diagnose.Suggests(of), diagnose.Hints(evidence.WaitingPods(f, facts.StartsCNI))...)
		}
		c.Says = fmt.Sprintf("no new pod gets a network on {node}: the ServiceAccount %s of the CNI plugin's token is missing", name)
		c.For = append(c.For, diagnose.Shows(tokens)...)
		return []diagnose.Case{c}
	}
	had := ""
	if len(tokens) > 0 {
		had = tokens[0].Facts.Str(cni.FactAccountUID)
	}
	if uid == "" || had == "" || uid == had {
		return nil
	}
	c.Says = fmt.Sprintf("no new pod gets a network on {node}: the CNI plugin's token is of an older ServiceAccount %s, which was deleted and recreated", name)
	c.For = slices.Concat(diagnose.Shows(evidence.WaitingPods(f, facts.StartsCNI)), diagnose.Proves(tokens),
		diagnose.Shows(of))
	return []diagnose.Case{c}
}

// nodeAccountGone is the case of calico-node's own account.
func nodeAccountGone(f diagnose.Findings) []diagnose.Case {
	of := diagnose.Keep(f.With(facts.CheckAccounts, facts.AccountOf, facts.AccountNode),
		func(r diagnose.Finding) bool { return diagnose.IsBad(r.Status) })
	if len(of) == 0 {
		return nil
	}
	name := of[0].Facts.Str(facts.Account)
	c := diagnose.Case{About: name, For: diagnose.Proves(of), Covers: append(diagnose.Covers(facts.CheckAccounts),
		evidence.CalicoDown...),
		Says: fmt.Sprintf("the API server rejects calico-node on {node}: its ServiceAccount %s is missing", name)}
	if diagnose.ReasonOf(of[0]) == facts.AccountRemade {
		refused := diagnose.Keep(f.Of(logs.CalicoLog.ID), func(r diagnose.Finding) bool {
			return diagnose.IsBad(r.Status) && r.Facts.Str(logs.FactSignature) == logs.FaultUnauthorized
		})
		c.Says = fmt.Sprintf("the API server rejects calico-node's token on {node}: its ServiceAccount %s was recreated after the pod started (%s)",
			name, strings.TrimSuffix(of[0].Saw, "."))
		c.For = append(diagnose.Hints(of), diagnose.Suggests(refused)...)
		if len(refused) > 0 {
			c.Covers = append(c.Covers, diagnose.Covers(logs.CalicoLog.ID)...)
		}
	}
	return []diagnose.Case{c}
}
