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

// APIVersion and Kind are those of the configuration file.
const (
	APIVersion = "calico-probe.io/v1alpha1"
	Kind       = "AlertRoutes"
)

// Routes say what is done about which alert, and within which limits.
type Routes struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Metadata   Metadata   `json:"metadata,omitzero"`
	Spec       RoutesSpec `json:"spec"`
}

// Metadata names a file of routes, for a file that is kept in a cluster.
type Metadata struct {
	Name string `json:"name,omitempty"`
}

// RoutesSpec is their list: the first route that matches an alert counts.
type RoutesSpec struct {
	Routes []Route `json:"routes,omitempty"`
	Limits Limits  `json:"limits,omitzero"`
}

// Route is for the alerts that all its matchers match; one of Runbook, Profile and Many is set.
type Route struct {
	Match   []string `json:"match"`             // as in Alertmanager: alertname=~"Kube.*"
	Runbook string   `json:"runbook,omitempty"` // its name
	Profile string   `json:"profile,omitempty"` // of a plain run: quick, standard or deep
	Many    bool     `json:"many,omitempty"`    // one look at all nodes, whatever node the alert names, if any
	// Node is the labels that tell the node, the first that an alert has; nil = defaultNodeLabels.
	Node []string `json:"node,omitempty"`

	matchers labels.Matchers
}

// Labels that are more than the name of a node.
const (
	labelInstance  = "instance"
	labelPod       = "pod"
	labelNamespace = "namespace"
)

// defaultNodeLabels are the labels that tell an alert's node where a route names none, the
// likeliest first. The pod stands before the instance: alerts of kube-state-metrics are
// about the pod they name, and the instance is that of kube-state-metrics itself.
func defaultNodeLabels() []string {
	return []string{"node", "kubernetes_node", "nodename", labelPod, labelInstance}
}

// ParseRoutes reads the configuration file, and wants to know of each runbook and profile it
// names whether there is one. Limits that it leaves out are as DefaultLimits has them.
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
			return Routes{}, fmt.Errorf("route %d: name a runbook or a profile, or say many: true, one of these", i+1)
		case route.Runbook != "" && !slices.Contains(runbooks, route.Runbook):
			return Routes{}, fmt.Errorf("route %d: there is no runbook %q; there are %s", i+1, route.Runbook, strings.Join(runbooks, ", "))
		case route.Profile != "" && !slices.Contains(profiles, route.Profile):
			return Routes{}, fmt.Errorf("route %d: there is no profile %q; there are %s", i+1, route.Profile, strings.Join(profiles, ", "))
		}
	}
	return r, nil
}

// one tells whether a route says one thing to do.
func (r Route) one() bool {
	said := 0
	for _, does := range []bool{r.Runbook != "", r.Profile != "", r.Many} {
		if does {
			said++
		}
	}
	return said == 1
}

// Answer says which runbook answers an alert.
type Answer struct {
	Alert    string // its name
	Matchers []*labels.Matcher
	Runbook  string
}

// RoutesFor are the routes where there is no file: what the runbooks themselves say they
// answer, the first that matches first.
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

// unmapped says why nothing is done about an alert.
type unmapped string

func (u unmapped) Error() string { return string(u) }

// target is what is done about an alert, and where. The error is unmapped, or says that
// the cluster could not be asked.
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

// nodeOf finds the node. A label that names a node which is not there ends the search: to
// look at another one would mislead. A pod that is gone does not.
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
			lost = fmt.Sprintf("pod %s/%s is not there, or on no node", alert[labelNamespace], value)
		default:
			if host, _, err := net.SplitHostPort(value); err == nil {
				value = host
			}
			node, err := c.Node(ctx, value)
			if node != "" || err != nil {
				return node, err
			}
			return "", unmapped(fmt.Sprintf("no node has the name or the address %q of its label %s", probe.Cut(value, 200), label))
		}
	}
	if lost != "" {
		return "", unmapped(lost)
	}
	return "", unmapped("it has none of the labels that tell a node: " + strings.Join(r.Node, ", "))
}
