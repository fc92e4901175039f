package netpolicy

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// On returns, as target attributes, the policies that may deny packets of a pod with these labels. It returns nil if
// there are none.
func (p Policies) On(namespace string, of map[string]string) map[string]string {
	with := withCalicos(namespace, of)
	if name, directions := p.denies(namespace, with); len(directions) > 0 {
		return map[string]string{probe.AttrPolicy: name, probe.AttrDenies: strings.Join(directions, ",")}
	}
	if by := p.strictest(namespace, with); by != "" {
		return map[string]string{probe.AttrPolicy: by}
	}
	if p.Unread != nil {
		return map[string]string{probe.AttrUnread: strings.Join(strings.Fields(p.Unread.Error()), " ")}
	}
	return nil
}

// denies returns the directions in which all of a pod's packets are denied, and the policy that denies the first
// direction.
func (p Policies) denies(namespace string, with map[string]string) (name string, in []string) {
	if p.Unread != nil || p.Other != nil {
		return "", nil
	}
	for _, d := range directions {
		if by := p.deniesIn(d.is, namespace, with); by != "" {
			name, in = cmp.Or(name, by), append(in, d.is)
		}
	}
	return name, in
}

// strictest returns a policy that applies to a pod and denies a direction. If there is none, it returns the first
// policy that applies, or "".
func (p Policies) strictest(namespace string, with map[string]string) string {
	first := ""
	for i := range p.List {
		one := &p.List[i]
		if !p.mayHold(one, namespace, with) {
			continue
		}
		for _, d := range directions {
			if rules, about := one.rules[d.is]; about && len(rules) == 0 {
				return one.name
			}
		}
		first = cmp.Or(first, one.name)
	}
	return first
}

// Free returns 0 if no policy selects the pod, otherwise 1. Test pods are sorted by it.
func (p Policies) Free(namespace string, of map[string]string) int {
	return min(1, len(p.On(namespace, of)))
}

// KnowsSenders reports whether a rule matches senders by their addresses. If so, pods with the same labels may be
// treated differently.
func (p Policies) KnowsSenders() bool {
	return len(p.Sets) > 0 || slices.ContainsFunc(p.List, func(one Policy) bool {
		return slices.ContainsFunc(one.rules[probe.DeniesIngress], func(r rule) bool {
			return len(r.src.nets)+len(r.src.notNets) > 0
		})
	})
}

// ByLabels returns a policy that admits pods by their labels, or "" if there is none.
func (p Policies) ByLabels() string {
	for _, one := range p.List {
		if slices.ContainsFunc(one.rules[probe.DeniesIngress], func(r rule) bool { return r.pods && r.action == "Allow" }) {
			return one.name
		}
	}
	return ""
}

// BySource returns the policy that allows only certain pods to reach pods with these labels. It returns "" if there is
// no such policy, if a rule also admits other sources, or if some policies could not be evaluated.
func (p Policies) BySource(namespace string, of map[string]string) string {
	if p.Unread != nil || p.Other != nil {
		return ""
	}
	with, name := withCalicos(namespace, of), ""
	for i := range p.List {
		one := &p.List[i]
		rules, about := one.rules[probe.DeniesIngress]
		hold := p.holds(one, &End{Namespace: namespace, Labels: with})
		if !about || hold == no {
			continue
		}
		if hold == maybe {
			return ""
		}
		for _, r := range rules {
			if r.action != "Allow" || !r.pods {
				return ""
			}
			name = one.name
		}
	}
	return name
}

// Unknown returns why the policies' effect is unknown, or nil if it is known.
func (p Policies) Unknown() error { return errors.Join(p.Unread, p.Other) }
