package netpolicy

import (
	"cmp"
	"slices"

	"github.com/calico-probe/calico-probe/probe"
)

// A decision is the combined result of all policies for some packets.
type decision struct {
	By     string // the policy that denies the packets; "" = they may pass
	chosen bool   // a rule with conditions denies the packets; false = no rule allows them
	rule   *rule  // the policy's rule that denies the packets; nil = no rule allows them
	held   bool   // at least one policy applies
}

// Denied reports whether the packets are denied.
func (d decision) Denied() bool { return d.By != "" }

// holds reports whether a policy applies to a pod.
func (p Policies) holds(one *Policy, e *End) answer {
	if one.namespace != "" && one.namespace != e.Namespace {
		return no
	}
	if one.vague {
		return maybe
	}
	by := p.selectsBy(one.text, e.Namespace, e.Labels)
	if one.selects != nil {
		by = sure(one.selects(e.Labels))
	}
	return min(by, p.labelled(&one.whom, e.Namespace, e.Labels))
}

// mayHold reports whether a policy may apply to a pod.
func (p Policies) mayHold(one *Policy, namespace string, with map[string]string) bool {
	return p.holds(one, &End{Namespace: namespace, Labels: with}) != no
}

// Sends returns the decision about a flow at its sender, and receives the decision at its receiver.
func (p Policies) Sends(f *Flow) decision {
	return p.decide(probe.DeniesEgress, func(one *Policy) answer { return p.holds(one, &f.From) },
		func(_ *Policy, r *rule) answer { return p.about(r, f) })
}

func (p Policies) receives(f *Flow) decision {
	return p.decide(probe.DeniesIngress, func(one *Policy) answer { return p.holds(one, &f.To) },
		func(_ *Policy, r *rule) answer { return p.about(r, f) })
}

// decide evaluates the tiers as Calico does: the first rule that matches a packet decides. If a tier's policies apply
// but no rule matches, the tier denies the packet. Calico's versions sort policies with the same order field
// differently. If one such policy denies and it is possible that another does not, the result is not certain.
func (p Policies) decide(direction string, holds func(*Policy) answer, about func(*Policy, *rule) answer) decision {
	held := false
	for rest := p.List; len(rest) > 0; {
		tier, end := rest[0].tier, slices.IndexFunc(rest, func(one Policy) bool { return one.tier != rest[0].tier })
		if end < 0 {
			end = len(rest)
		}
		t := p.decideTier(rest[:end], direction, holds, about)
		held = held || t.held
		if t.open || t.By != "" {
			return decision{By: t.By, chosen: t.chosen, rule: t.rule, held: held}
		}
		rest = rest[end:]
		if action, _ := p.Tiers[tier]["defaultAction"].(string); t.first != "" && !t.passed && action != "Pass" {
			return decision{By: t.first, held: true}
		}
	}
	return decision{held: held}
}

// tierDecision is the result of a tier's policies, before the default action at the tier's end.
type tierDecision struct {
	decision
	first  string // the first policy that applies
	passed bool   // a rule passes the packets to the next tier
	open   bool   // the packets may pass
}

func (p Policies) decideTier(all []Policy, direction string, holds func(*Policy) answer,
	about func(*Policy, *rule) answer,
) (t tierDecision) {
	var order float64 // of the policy that decided
	for i := range all {
		one := &all[i]
		rules, is := one.rules[direction]
		if !is {
			continue
		}
		hold := holds(one)
		if hold == no {
			continue
		}
		if (t.By != "" || t.passed) && one.order != order {
			return t
		}
		t.held = true
		if hold == maybe {
			return tierDecision{decision: decision{held: true}, open: true}
		}
		t.first = cmp.Or(t.first, one.name)
		for j := range rules {
			r := &rules[j]
			is := about(one, r)
			switch {
			case is == no, r.action == "Log", r.action == "Deny" && is != yes:
				continue
			case r.action == "Deny" && !t.passed:
				if t.By == "" {
					t.By, t.chosen, t.rule, order = one.name, !r.all, r, one.order
				}
			case r.action == "Pass" && is == yes && t.By == "":
				t.passed, order = true, one.order
			default: // it allows or passes some packets
				return tierDecision{decision: decision{held: true}, open: true}
			}
			break
		}
	}
	return t
}

// deniesIn returns the policy that denies all of a pod's packets in a direction, or "" if there is none.
func (p Policies) deniesIn(direction, namespace string, with map[string]string) string {
	of := End{Namespace: namespace, Labels: with}
	return p.decide(direction, func(one *Policy) answer { return p.holds(one, &of) }, func(_ *Policy, r *rule) answer {
		return max(maybe, sure(r.all))
	}).By
}
