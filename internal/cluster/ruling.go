package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/calico-probe/calico-probe/probe"
)

// A ruling is what a policy does with the packets of a pod that it selects.
type ruling struct {
	tier  string
	order float64
	vague bool              // its selector could not be read
	whom  entity            // what its selectors of namespaces and accounts require beside its selector
	rules map[string][]rule // for each direction that it is about
}

// rule is one of a policy's, in order.
type rule struct {
	action                string // Allow, Deny, Pass or Log
	all                   bool   // it is about every packet
	pods                  bool   // it is surely about what certain pods send, known by their labels, and nothing else
	protocol, notProtocol string // in capitals, or a number; "" = every one
	version               int    // of IP; 0 = both
	icmp                  bool   // it is about certain types of ICMP
	src, dst              entity
}

// byNets reports whether a rule knows receivers by their addresses alone.
func (r *rule) byNets() bool { return len(r.dst.nets) > 0 && !r.dst.selects() && r.dst.service == "" }

// The tier of Kubernetes' policies, and their order in it (libcalico-go, k8s/conversion).
const (
	tierDefault     = "default"
	orderKubernetes = 1000
)

// directions are the two that policies tell apart, as Calico and Kubernetes name them, and as a
// target does.
var directions = []struct{ said, is, rules string }{
	{"Ingress", probe.DeniesIngress, "ingress"}, {"Egress", probe.DeniesEgress, "egress"},
}

// calicoRuling reads a policy of Calico's.
func calicoRuling(namespace string, spec map[string]any, vague bool) ruling {
	text := func(key string) string { s, _ := spec[key].(string); return s }
	set := func(key string) bool { on, _ := spec[key].(bool); return on }
	out := ruling{tier: cmp.Or(text("tier"), tierDefault), order: math.Inf(1), rules: map[string][]rule{}}
	out.vague = vague
	out.whom = entity{namespaces: text("namespaceSelector"), accountSelector: text("serviceAccountSelector")}
	out.order = number(spec["order"], out.order)
	if set("doNotTrack") || set("preDNAT") { // of host endpoints alone
		return out
	}
	types, _ := spec["types"].([]any)
	for _, d := range directions {
		list, _ := spec[d.rules].([]any)
		egress, _ := spec["egress"].([]any)
		byDefault := d.said == "Ingress" && (len(list) > 0 || len(egress) == 0) || d.said == "Egress" && len(list) > 0
		if len(types) > 0 && !slices.Contains(types, any(d.said)) || len(types) == 0 && !byDefault {
			continue
		}
		out.rules[d.is] = []rule{}
		for _, item := range list {
			r, _ := item.(map[string]any)
			out.rules[d.is] = append(out.rules[d.is], calicoRule(namespace, r))
		}
	}
	return out
}

// number is a number of JSON, which may be whole.
func number(v any, otherwise float64) float64 {
	switch n := v.(type) {
	case int64:
		return float64(n)
	case float64:
		return n
	}
	return otherwise
}

// unconditional tells whether a rule of Calico's is about every packet.
func unconditional(r map[string]any) bool {
	for key, value := range r {
		part, isPart := value.(map[string]any)
		if key != "action" && key != "metadata" && (!isPart || len(part) > 0) {
			return false
		}
	}
	return true
}

// kubernetesRuling reads a policy of Kubernetes', which only allows.
func kubernetesRuling(np *networkingv1.NetworkPolicy) ruling {
	out := ruling{tier: tierDefault, order: orderKubernetes, rules: map[string][]rule{}}
	types := np.Spec.PolicyTypes
	if len(types) == 0 || slices.Contains(types, networkingv1.PolicyTypeIngress) {
		out.rules[probe.DeniesIngress] = []rule{}
		for _, r := range np.Spec.Ingress {
			allows := rule{action: "Allow", all: len(r.From)+len(r.Ports) == 0, pods: fromPods(r.From)}
			out.rules[probe.DeniesIngress] = append(out.rules[probe.DeniesIngress],
				allows.each(np.Namespace, r.From, r.Ports, func(one *rule) *entity { return &one.src })...)
		}
	}
	if slices.Contains(types, networkingv1.PolicyTypeEgress) || len(types) == 0 && len(np.Spec.Egress) > 0 {
		out.rules[probe.DeniesEgress] = []rule{}
		for _, r := range np.Spec.Egress {
			allows := rule{action: "Allow", all: len(r.To)+len(r.Ports) == 0}
			out.rules[probe.DeniesEgress] = append(out.rules[probe.DeniesEgress],
				allows.each(np.Namespace, r.To, r.Ports, func(one *rule) *entity { return &one.dst })...)
		}
	}
	return out
}

// mayHold reports whether a policy may hold for a pod.
func (p policies) mayHold(one *policy, namespace string, with map[string]string) bool {
	return p.holds(one, &end{namespace: namespace, labels: with}) != no
}

// holds reports whether a policy holds for a pod.
func (p policies) holds(one *policy, e *end) answer {
	if one.namespace != "" && one.namespace != e.namespace {
		return no
	}
	if one.vague {
		return maybe
	}
	by := p.selectsBy(one.text, e.namespace, e.labels)
	if one.selects != nil {
		by = sure(one.selects(e.labels))
	}
	return min(by, p.labelled(&one.whom, e.namespace, e.labels))
}

// denies names the directions in which every packet of a pod is surely denied, and the policy that
// does it, of the first.
func (p policies) denies(namespace string, with map[string]string) (name string, in []string) {
	if p.all.Err != nil || p.other != nil {
		return "", nil
	}
	for _, d := range directions {
		if by := p.deniesIn(d.is, namespace, with); by != "" {
			name, in = cmp.Or(name, by), append(in, d.is)
		}
	}
	return name, in
}

// deniesIn names the policy that surely denies every packet of a pod in a direction, "" where none does.
func (p policies) deniesIn(direction, namespace string, with map[string]string) string {
	of := end{namespace: namespace, labels: with}
	return p.ask(direction, func(one *policy) answer { return p.holds(one, &of) }, func(_ *policy, r *rule) answer {
		return max(maybe, sure(r.all))
	}).by
}

// A decision is what the policies come to for some packets.
type decision struct {
	by     string // the policy that surely denies them, "" = they may pass
	chosen bool   // a rule of it with conditions does, and not that no rule allows them
	rule   *rule  // which rule of it denies them; nil = no rule allows them
	held   bool   // some policy holds
}

// denied reports whether the packets are surely denied.
func (d decision) denied() bool { return d.by != "" }

// sends decides on what an end sends, and receives on what an end receives.
func (p policies) sends(f *flow) decision {
	return p.ask(probe.DeniesEgress, func(one *policy) answer { return p.holds(one, &f.from) },
		func(_ *policy, r *rule) answer { return p.about(r, f) })
}

func (p policies) receives(f *flow) decision {
	return p.ask(probe.DeniesIngress, func(one *policy) answer { return p.holds(one, &f.to) },
		func(_ *policy, r *rule) answer { return p.about(r, f) })
}

// ask walks the tiers as Calico does, for packets that a rule may be about: the first rule that a packet meets
// decides; a tier whose policies hold and do not decide denies at its end. Which of two policies with the same order
// comes first differs between versions of Calico: nothing is sure there that one denies and the other may not.
func (p policies) ask(direction string, holds func(*policy) answer, about func(*policy, *rule) answer) decision {
	held := false
	for rest := p.all.Value; len(rest) > 0; {
		tier, end := rest[0].tier, slices.IndexFunc(rest, func(one policy) bool { return one.tier != rest[0].tier })
		if end < 0 {
			end = len(rest)
		}
		t := p.askTier(rest[:end], direction, holds, about)
		held = held || t.held
		if t.open || t.by != "" {
			return decision{by: t.by, chosen: t.chosen, rule: t.rule, held: held}
		}
		rest = rest[end:]
		if action, _ := p.tiers[tier]["defaultAction"].(string); t.first != "" && !t.passed && action != "Pass" {
			return decision{by: t.first, held: true}
		}
	}
	return decision{held: held}
}

// tierDecision is what the policies of a tier come to before its end.
type tierDecision struct {
	decision
	first  string // the first policy that holds
	passed bool   // a rule leaves it to the next tier
	open   bool   // the packets may pass
}

func (p policies) askTier(all []policy, direction string, holds func(*policy) answer,
	about func(*policy, *rule) answer,
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
		if (t.by != "" || t.passed) && one.order != order {
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
				if t.by == "" {
					t.by, t.chosen, t.rule, order = one.name, !r.all, r, one.order
				}
			case r.action == "Pass" && is == yes && t.by == "":
				t.passed, order = true, one.order
			default: // it allows or passes on some
				return tierDecision{decision: decision{held: true}, open: true}
			}
			break
		}
	}
	return t
}

// sort puts the policies into the order in which they are asked, tier by tier.
func (p *policies) sort() {
	const last = 1000000 // of the default tier, where its object does not say it
	order := func(tier string) float64 {
		otherwise := math.Inf(1)
		if tier == tierDefault {
			otherwise = last
		}
		return number(p.tiers[tier]["order"], otherwise)
	}
	slices.SortStableFunc(p.all.Value, func(a, b policy) int {
		return cmp.Or(cmp.Compare(order(a.tier), order(b.tier)), cmp.Compare(a.tier, b.tier), cmp.Compare(a.order, b.order),
			cmp.Compare(a.name, b.name))
	})
}

// clusterPolicies are kinds of policies that come before those that are worked out.
var clusterPolicies = []schema.GroupVersionResource{
	{Group: "policy.networking.k8s.io", Version: "v1alpha1", Resource: "adminnetworkpolicies"},
	{Group: "policy.networking.k8s.io", Version: "v1alpha2", Resource: "clusternetworkpolicies"},
}

// errNotWorkedOut is that of policies that could be read.
var errNotWorkedOut = errors.New("which are not worked out")

// notWorkedOut says which policies there are, or may be, that are not worked out.
func (c *Client) notWorkedOut(ctx context.Context) error {
	var out error
	for _, kind := range clusterPolicies {
		list, err := c.calls.Resource(kind).List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			out = errors.Join(out, fmt.Errorf("listing %s: %w", kind.Resource, err))
		case len(list.Items) > 0:
			out = errors.Join(out, fmt.Errorf("there are %s, %w", kind.Resource, errNotWorkedOut))
		}
	}
	return out
}
