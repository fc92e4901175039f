package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

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
	vague bool              // whom it selects is not worked out
	rules map[string][]rule // for each direction that it is about
}

// rule is one of a policy's, in order.
type rule struct {
	action string // Allow, Deny, Pass or Log
	all    bool   // it is about every packet
	pods   bool   // it is surely about what certain pods send, known by their labels, and nothing else
	// what of the packets it is about is known of Calico's rules, and of Kubernetes'; receivers of egress alone
	protocol string                 // the only one it is about, as in protocolTCP, or a number; "" = every one
	ports    []any                  // the ports at the receiving end that it is about; nil = every port
	to       func(destination) bool // whether it may be about what is for that one; nil = for everybody
	nets     bool                   // it knows receivers by their addresses alone
	from     []netip.Prefix         // the networks that it is about what comes from; nil = from everywhere, or not known
}

// mayBeFrom tells whether a rule may be about what an address sends.
func (r rule) mayBeFrom(sender netip.Addr) bool {
	return r.from == nil || slices.ContainsFunc(r.from, func(n netip.Prefix) bool { return n.Contains(sender) })
}

// mayBe tells whether a rule may be about a port at the receiving end.
func (r rule) mayBe(protocol string, port int) bool {
	if r.protocol != "" && r.protocol != protocol {
		return false
	}
	return r.ports == nil || slices.ContainsFunc(r.ports, func(one any) bool {
		text, isText := one.(string)
		first, last, isRange := strings.Cut(text, ":")
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		switch {
		case !isText:
			return int(number(one, 0)) == port
		case err != nil || isRange && err2 != nil: // it has a name
			return true
		case isRange:
			return from <= port && port <= to
		}
		return from == port
	})
}

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
func calicoRuling(spec map[string]any, vague bool) ruling {
	text := func(key string) string { s, _ := spec[key].(string); return s }
	set := func(key string) bool { on, _ := spec[key].(bool); return on }
	out := ruling{tier: cmp.Or(text("tier"), tierDefault), order: math.Inf(1), rules: map[string][]rule{}}
	out.vague = vague || text("namespaceSelector") != "" || text("serviceAccountSelector") != ""
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
			out.rules[d.is] = append(out.rules[d.is], calicoRule(r))
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
			out.rules[probe.DeniesIngress] = append(out.rules[probe.DeniesIngress], allows.at(r.Ports)...)
		}
	}
	if slices.Contains(types, networkingv1.PolicyTypeEgress) || len(types) == 0 && len(np.Spec.Egress) > 0 {
		out.rules[probe.DeniesEgress] = []rule{}
		for _, r := range np.Spec.Egress {
			out.rules[probe.DeniesEgress] = append(out.rules[probe.DeniesEgress], egressRules(np.Namespace, r)...)
		}
	}
	return out
}

// on tells whether a policy holds for a pod.
func (p policy) on(namespace string, with map[string]string) bool {
	return (p.namespace == "" || p.namespace == namespace) && p.selects(with)
}

// denies names the directions in which every packet of a pod is surely denied, and the policy that
// does it, of the first.
func (p policies) denies(namespace string, with map[string]string) (name string, in []string) {
	if p.err != nil || p.other != nil {
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
	by, _, _ := p.ask(direction, func(one policy) bool { return one.on(namespace, with) },
		func(policy, rule) bool { return true })
	return by
}

// ask walks the tiers as Calico does, for packets that a rule may be about: the first rule that a packet meets
// decides; a tier whose policies hold and do not decide denies at its end. It names the policy that surely denies them,
// and tells whether any policy holds. Which of two policies with the same order comes first differs between versions
// of Calico: nothing is sure there that one denies and the other may not.
func (p policies) ask(direction string, holds func(policy) bool, may func(policy, rule) bool) (
	by string, held, denied bool,
) {
	for rest := p.all; len(rest) > 0; {
		tier, end := rest[0].tier, slices.IndexFunc(rest, func(one policy) bool { return one.tier != rest[0].tier })
		if end < 0 {
			end = len(rest)
		}
		first, decided, passed := "", "", false
		var order float64 // of the policy that decided
		for _, one := range rest[:end] {
			rules, about := one.rules[direction]
			if !about || !holds(one) {
				continue
			}
			if (decided != "" || passed) && one.order != order {
				break
			}
			if one.vague {
				return "", true, false
			}
			first, held = cmp.Or(first, one.name), true
			for _, r := range rules {
				switch {
				case !may(one, r), r.action == "Log", r.action == "Deny" && !r.all:
					continue
				case r.action == "Deny" && !passed:
					decided, order = cmp.Or(decided, one.name), one.order
				case r.action == "Pass" && r.all && decided == "":
					passed, order = true, one.order
				default: // it allows or passes on some
					return "", true, false
				}
				break
			}
		}
		if decided != "" {
			return decided, true, true
		}
		rest = rest[end:]
		if action, _ := p.tiers[tier]["defaultAction"].(string); first != "" && !passed && action != "Pass" {
			return first, true, true
		}
	}
	return "", held, false
}

// sort puts the policies into the order in which they are asked, tier by tier.
func (p policies) sort() {
	const last = 1000000 // of the default tier, where its object does not say it
	order := func(tier string) float64 {
		otherwise := math.Inf(1)
		if tier == tierDefault {
			otherwise = last
		}
		return number(p.tiers[tier]["order"], otherwise)
	}
	slices.SortStableFunc(p.all, func(a, b policy) int {
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
