package api

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// systemNamespaces have the workloads that a node needs, beside the namespaces of calico-node.
var systemNamespaces = []string{"kube-system", "calico-system", "calico-apiserver", "tigera-operator"}

// podsCreated reports the workloads whose pods the API server refuses. In a tenant's namespace that is a warning about
// the workload: the node has no fault.
func podsCreated(s *cluster.Snapshot, report func(probe.Result)) {
	if err := s.Refused.Err; err != nil && len(s.Refused.Value) == 0 {
		r := apicheck.Unread(err)
		if cluster.Denied(err) {
			r = probe.Found(probe.Skip, "you may not list events")
		}
		report(r)
		return
	}
	for _, of := range s.Refused.Value {
		workload := probe.OneLine(of.Kind + " " + of.Namespace + "/" + of.Name)
		by, name, says := refuserOf(of)
		lacks := "cannot create new pods"
		if of.Lacks > 0 {
			lacks = "lacks " + cluster.Plural(of.Lacks, "pod")
		}
		quote := of.Said
		quote.Text = says
		r := probe.Found(probe.Warn, "%s %s: %s", workload, lacks, quote.Aged(s.Now)).On(workload).
			With(facts.RefusedBy, by).With(probe.FactNamespace, probe.OneLine(of.Namespace)).With(facts.OfSystem, false)
		if name != "" {
			r = r.With(facts.Refuser, name)
		}
		if slices.Contains(systemNamespaces, of.Namespace) || slices.Contains(s.CalicoIn, of.Namespace) {
			r.Status = probe.Fail
			r = r.With(facts.OfSystem, true)
		}
		report(r)
	}
	if len(s.Refused.Value) == 0 {
		report(probe.Found(probe.OK, "no workload reports that the API server refuses its pods"))
	}
}

// refusals are the API server's answers to the creation of a pod, each with the name of the object that refuses it.
var refusals = []struct {
	by    string
	match *regexp.Regexp
	says  string // with the namespace, the name, and the rest; "" = the answer itself
}{
	{facts.RefuserQuota, regexp.MustCompile(`^(?:.{0,200}: )?exceeded quota: ([\w.-]+), (requested: .*)`), "ResourceQuota %s/%s has no room: %s"},
	{facts.RefuserQuota, regexp.MustCompile(`^(?:.{0,200}: )?failed quota: ([\w.-]+): (must specify .*)`),
		"ResourceQuota %s/%s counts what the pods do not set: %s"},
	{facts.RefuserQuota, regexp.MustCompile(`status unknown for quota: ([\w.-]+)|insufficient quota to `), ""},
	{facts.RefuserLimits, regexp.MustCompile(`(?:minimum|maximum) \S+ usage per (?:Container|Pod|PersistentVolumeClaim) is ` +
		`|\S+ max limit to request ratio per (?:Container|Pod) is `), ""},
	{facts.RefuserSecurity, regexp.MustCompile(`violates PodSecurity "`), ""},
	{facts.RefuserPolicy, regexp.MustCompile(`ValidatingAdmissionPolicy '([^']{1,253})' (?:with binding '[^']*' )?denied request: `), ""},
	{facts.RefuserWebhook, regexp.MustCompile(`admission webhook "([^"]{1,253})" denied the request`), ""},
	{facts.RefuserDead, regexp.MustCompile(`failed calling webhook "([^"]{1,253})"`), ""},
	{facts.RefuserAccount, regexp.MustCompile(`error looking up service account \S+/([\w.-]+): `), ""},
	{facts.RefuserPriority, regexp.MustCompile(`no PriorityClass with name ([\w.-]+) was found`), ""},
}

// refuserOf returns what refuses a workload's pods, its name, and the answer with that name first.
func refuserOf(of cluster.Unmade) (by, name, says string) {
	text := of.Said.Text
	for _, r := range refusals {
		m := r.match.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		if len(m) > 1 {
			name = m[1]
		}
		if r.says != "" {
			return r.by, name, fmt.Sprintf(r.says, probe.OneLine(of.Namespace), name, strings.TrimSpace(m[2]))
		}
		return r.by, name, "the API server answered: " + text
	}
	return facts.RefuserOther, "", "the API server answered: " + text
}
