package alerts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/prometheus/alertmanager/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/calico-probe/calico-probe/probe"
)

// APIVersion and Kind identify the configuration file.
const (
	APIVersion = "calico-probe.io/v1alpha1"
	Kind       = "AlertRoutes"
)

// Routes map alerts to procedures, and contain the limits.
type Routes struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Metadata   Metadata   `json:"metadata,omitzero"`
	Spec       RoutesSpec `json:"spec"`
}

// Metadata names a file of routes, as in Kubernetes objects.
type Metadata struct {
	Name string `json:"name,omitempty"`
}

// RoutesSpec is the content. The first route that matches an alert applies.
type RoutesSpec struct {
	Routes []Route `json:"routes,omitempty"`
	Limits Limits  `json:"limits,omitzero"`
}

// Route applies to alerts that match all of its matchers. Exactly one of Runbook, Profile and Many is set.
type Route struct {
	Match   []string `json:"match"`             // same syntax as in Alertmanager: alertname=~"Kube.*"
	Runbook string   `json:"runbook,omitempty"` // name of a runbook
	Profile string   `json:"profile,omitempty"` // profile of a plain run: quick, standard or deep
	Many    bool     `json:"many,omitempty"`    // one run over all nodes, regardless of the alert's node
	// Node lists labels that identify the node. The first label that the alert has is used. nil = defaultNodeLabels.
	Node []string `json:"node,omitempty"`

	matchers labels.Matchers
}

// Labels with a special meaning, beyond a node's name.
const (
	labelInstance  = "instance"
	labelPod       = "pod"
	labelNamespace = "namespace"
)

// defaultNodeLabels returns the labels that identify an alert's node if a route does not list any. The pod precedes the
// instance: an alert from kube-state-metrics is about the pod in its labels, and its instance is kube-state-metrics
// itself.
func defaultNodeLabels() []string {
	return []string{"node", "kubernetes_node", "nodename", labelPod, labelInstance}
}

// ParseRoutes parses the configuration file. The file may use only the names in runbooks and profiles. Missing limits
// come from DefaultLimits.
func ParseRoutes(b []byte, runbooks, profiles []string) (Routes, error) {
	r := Routes{Spec: RoutesSpec{Limits: DefaultLimits()}}
	if err := yaml.UnmarshalStrict(b, &r); err != nil {
		return Routes{}, fmt.Errorf("reading the configuration: %w", err)
	}
	switch {
	case r.APIVersion != APIVersion || r.Kind != Kind:
		return Routes{}, fmt.Errorf("is %q of %q: want kind %s of %s", r.Kind, r.APIVersion, Kind, APIVersion)
	}
	if err := r.Spec.Limits.check(); err != nil {
		return Routes{}, fmt.Errorf("spec.limits: %w", err)
	}
	for i, route := range r.Spec.Routes {
		if err := r.Spec.Routes[i].complete(); err != nil {
			return Routes{}, fmt.Errorf("route %d: %w", i+1, err)
		}
		switch {
		case !route.one():
			return Routes{}, fmt.Errorf("route %d: set exactly one of runbook, profile and many", i+1)
		case route.Runbook != "" && !slices.Contains(runbooks, route.Runbook):
			return Routes{}, fmt.Errorf("route %d: unknown runbook %q: use one of %s", i+1, route.Runbook, strings.Join(runbooks, ", "))
		case route.Profile != "" && !slices.Contains(profiles, route.Profile):
			return Routes{}, fmt.Errorf("route %d: unknown profile %q: use one of %s", i+1, route.Profile, strings.Join(profiles, ", "))
		}
	}
	return r, nil
}

// one reports whether a route names exactly one procedure.
func (r Route) one() bool {
	said := 0
	for _, does := range []bool{r.Runbook != "", r.Profile != "", r.Many} {
		if does {
			said++
		}
	}
	return said == 1
}

// Answer is an alert that a runbook declares.
type Answer struct {
	Alert    string // name of the alert
	Matchers []*labels.Matcher
	Runbook  string
}

// RoutesFor returns the routes if there is no configuration file. It creates them from the alerts that runbooks
// declare, in this order.
func RoutesFor(answers []Answer) (Routes, error) {
	r := Routes{APIVersion: APIVersion, Kind: Kind, Spec: RoutesSpec{Limits: DefaultLimits()}}
	for _, a := range answers {
		route := Route{Match: []string{fmt.Sprintf("%s=%q", labelAlertname, a.Alert)}, Runbook: a.Runbook}
		for _, m := range a.Matchers {
			route.Match = append(route.Match, m.String())
		}
		if err := route.complete(); err != nil {
			return Routes{}, fmt.Errorf("the alert %s of the runbook %s: %w", probe.Plain(a.Alert), a.Runbook, err)
		}
		r.Spec.Routes = append(r.Spec.Routes, route)
	}
	return r, nil
}

func (r *Route) complete() error {
	if len(r.Match) == 0 {
		return errors.New(`match is empty: write alertname=~".+" for every alert`)
	}
	for _, text := range r.Match {
		m, err := labels.ParseMatcher(text)
		if err != nil {
			return fmt.Errorf("matcher %q: %w", text, err)
		}
		r.matchers = append(r.matchers, m)
	}
	if len(r.Node) == 0 {
		r.Node = defaultNodeLabels()
	}
	return nil
}

func (r Route) matches(alert map[string]string) bool {
	for _, m := range r.matchers {
		if !m.Matches(alert[m.Name]) {
			return false
		}
	}
	return true
}

// unmapped is the reason why an alert does not start anything.
type unmapped string

func (u unmapped) Error() string { return string(u) }

// target returns the procedure and the node of an alert. The error is unmapped, or the error of a cluster query.
func (r Routes) target(ctx context.Context, c Cluster, alert map[string]string) (Procedure, string, error) {
	i := slices.IndexFunc(r.Spec.Routes, func(r Route) bool { return r.matches(alert) })
	if i < 0 {
		return Procedure{}, "", unmapped("no route matches it")
	}
	route := r.Spec.Routes[i]
	if route.Many {
		return manyProcedure, ManyNodes, nil
	}
	node, err := route.nodeOf(ctx, c, alert)
	return Procedure{Runbook: route.Runbook, Profile: route.Profile}, node, err
}

// nodeOf finds an alert's node. If a label has an unknown node, it stops, because another label's node would be
// misleading. If a label has a deleted pod, it continues with the next label.
func (r Route) nodeOf(ctx context.Context, c Cluster, alert map[string]string) (string, error) {
	lost := ""
	for _, label := range r.Node {
		value := alert[label]
		switch {
		case value == "":
		case label == labelPod:
			if alert[labelNamespace] == "" {
				continue
			}
			node, err := c.PodNode(ctx, alert[labelNamespace], value)
			if node != "" || err != nil {
				return node, err
			}
			lost = fmt.Sprintf("pod %s/%s does not exist, or has no node", alert[labelNamespace], value)
		default:
			if host, _, err := net.SplitHostPort(value); err == nil {
				value = host
			}
			node, err := c.Node(ctx, value)
			if node != "" || err != nil {
				return node, err
			}
			return "", unmapped(fmt.Sprintf("no node has the name or address %q, from label %s", probe.Cut(value, 200), label))
		}
	}
	if lost != "" {
		return "", unmapped(lost)
	}
	return "", unmapped("it has no label that identifies a node: " + strings.Join(r.Node, ", "))
}
