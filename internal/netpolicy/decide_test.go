package netpolicy

import (
	"errors"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// TestDenies has policies that deny everything, and every way in which that is uncertain.
func TestDenies(t *testing.T) {
	type m = map[string]any
	both := []any{"Ingress", "Egress"}
	deny, allow := m{"action": "Deny"}, m{"action": "Allow"}
	some := m{"action": "Allow", "source": m{"nets": []any{"10.0.0.0/8"}}}
	for name, c := range map[string]struct {
		specs map[string]m // of GlobalNetworkPolicies, by name
		tiers map[string]m
		other error
		want  string
	}{
		"recorded: all(), no rules": {specs: map[string]m{"deny-all": {"selector": "all()", "types": both}},
			want: "GlobalNetworkPolicy deny-all ingress,egress"},
		"one direction": {specs: map[string]m{"d": {"types": []any{"Egress"}}}, want: "GlobalNetworkPolicy d egress"},
		"types by rules": {specs: map[string]m{"d": {"ingress": []any{deny}, "egress": []any{allow}}},
			want: "GlobalNetworkPolicy d ingress"},
		"others":            {specs: map[string]m{"d": {"selector": "app == 'other'", "types": both}}},
		"some are allowed":  {specs: map[string]m{"d": {"ingress": []any{some, deny}}}},
		"some denied first": {specs: map[string]m{"d": {"ingress": []any{m{"action": "Deny", "protocol": "TCP"}, deny}}}, want: "GlobalNetworkPolicy d ingress"},
		"logged first":      {specs: map[string]m{"d": {"ingress": []any{m{"action": "Log"}, deny}}}, want: "GlobalNetworkPolicy d ingress"},
		"an earlier one allows": {specs: map[string]m{"a": {"order": 1.5, "ingress": []any{allow}},
			"d": {"order": int64(2), "ingress": []any{deny}}}},
		"a later one allows": {
			specs: map[string]m{"a": {"ingress": []any{allow}}, "d": {"order": int64(2), "ingress": []any{deny}}},
			want:  "GlobalNetworkPolicy d ingress"},
		"an earlier tier passes": {specs: map[string]m{"p": {"tier": "first", "ingress": []any{m{"action": "Pass"}}},
			"d": {"ingress": []any{deny}}}, tiers: map[string]m{"first": {"order": int64(1)}},
			want: "GlobalNetworkPolicy d ingress"},
		"an earlier tier allows": {specs: map[string]m{"p": {"tier": "first", "ingress": []any{allow}},
			"d": {"ingress": []any{deny}}}, tiers: map[string]m{"first": {"order": int64(1)}}},
		"a later tier allows": {specs: map[string]m{"p": {"tier": "late", "ingress": []any{allow}},
			"d": {"ingress": []any{deny}}}, tiers: map[string]m{"late": {"order": int64(2000000)}},
			want: "GlobalNetworkPolicy d ingress"},
		"the tier passes at its end": {specs: map[string]m{"p": {"tier": "first", "types": both}},
			tiers: map[string]m{"first": {"order": int64(1), "defaultAction": "Pass"}}},
		"selected by namespace":    {specs: map[string]m{"d": {"namespaceSelector": "x == 'y'", "types": both}}},
		"of host endpoints":        {specs: map[string]m{"d": {"preDNAT": true, "ingress": []any{deny}}}},
		"other kinds are there":    {specs: map[string]m{"d": {"types": both}}, other: errors.New("x")},
		"a selector of no meaning": {specs: map[string]m{"d": {"selector": "(((", "types": both}}},
	} {
		p := Policies{Tiers: c.tiers, Other: c.other}
		for _, name := range []string{"a", "d", "deny-all", "p"} {
			if spec := c.specs[name]; spec != nil {
				p.List = append(p.List, OfCalico("GlobalNetworkPolicy", name, spec))
			}
		}
		p.Sort()
		got := p.On("default", map[string]string{"app": "w"})
		text := strings.TrimSpace(got[probe.AttrPolicy] + " " + got[probe.AttrDenies])
		if got[probe.AttrDenies] == "" {
			text = ""
		}
		if text != c.want {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
}

// TestDirectionByDefault checks that a Kubernetes policy without policyTypes applies only to ingress.
func TestDirectionByDefault(t *testing.T) {
	if r := kubernetesRuling(&networkingv1.NetworkPolicy{}); len(r.rules) != 1 {
		t.Errorf("by default ingress alone: %v", r.rules)
	}
}

// TestUnderDenies checks that a policy that denies everything is reported, only in its direction.
func TestUnderDenies(t *testing.T) {
	target := probe.Target{Name: "w", Attrs: map[string]string{probe.AttrPolicy: "P", probe.AttrDenies: "ingress"}}
	got := probe.Found(probe.Fail, "gone").Under(target, probe.DeniesIngress)
	if got.Status != probe.Warn || got.Facts[probe.FactDenied] != "ingress" ||
		!strings.Contains(got.Saw, "P denies all ingress of w") {
		t.Errorf("%+v", got)
	}
	if got := probe.Found(probe.Unknown, "odd").Under(target, probe.DeniesIngress); got.Status != probe.Skip {
		t.Errorf("%+v", got)
	}
	got = probe.Found(probe.Fail, "gone").Under(target, probe.DeniesEgress)
	if got.Status != probe.Warn || got.Facts[probe.FactDenied] != nil {
		t.Errorf("%+v", got)
	}
	if got := probe.Found(probe.Unknown, "odd").Under(target, probe.DeniesEgress); got.Status != probe.Unknown {
		t.Errorf("%+v", got)
	}
}
