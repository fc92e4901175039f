// Package netpolicy works out what network policies come to, those of Kubernetes and of Calico, for given
// packets:
//
//	OfKubernetes, OfCalico, NewSet -> Policies.Sort -> On(pod), Sends(flow), WithoutDNS(pod, servers), AtHost(labels)
//
// An answer that depends on what is not known is that packets may pass. It reads no API: internal/cluster reads the
// objects, and keeps them as Policies.
package netpolicy

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// Policy is something that may forbid packets from or to the pods it selects.
type Policy struct {
	name      string                       // with its kind
	namespace string                       // "" = every
	selects   func(map[string]string) bool // by Kubernetes' selector; nil for Calico's
	text      string                       // Calico's selector
	ruling
}

// Policies are those of Kubernetes and of Calico. What they allow is worked out as far as one
// denies everything: a pod that none selects is the better one to test with.
type Policies struct {
	List   []Policy                  // in the order in which they are asked
	Unread error                     // why some are missing there
	Tiers  map[string]map[string]any // the spec of each
	Other  error                     // why nothing is surely denied: kinds that are not worked out, or not read
	// what selectors may mean beside pods, and the labels of namespaces, nil where they are not known
	Sets       []Set
	SetsUnread error
	Names      map[string]map[string]string
	parsed     *parsedSelectors
}

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

// entity is what a rule requires of one end, in Calico's words.
type entity struct {
	of                   string // the policy's namespace
	selector, namespaces string
	notSelector          string
	accounts             []string
	accountSelector      string
	nets, notNets        []netip.Prefix
	badNets              bool // some could not be read
	ports, notPorts      []any
	service              string // NAMESPACE/NAME
}

// empty reports whether an entity requires nothing.
func (x *entity) empty() bool {
	return !x.selects() && x.notSelector == "" && len(x.nets)+len(x.notNets)+len(x.ports)+len(x.notPorts) == 0 &&
		x.service == "" && !x.badNets
}

// selects reports whether an entity requires labels.
func (x *entity) selects() bool {
	return x.selector != "" || x.namespaces != "" || len(x.accounts) > 0 || x.accountSelector != ""
}

// A Set is addresses that a selector may mean, beside pods.
type Set struct {
	name      string // with its kind
	namespace string // "" = a GlobalNetworkSet
	labels    map[string]string
	nets      []netip.Prefix
	Bad       bool // some could not be read
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

// The labels that Calico adds (libcalico-go, k8s/conversion).
const (
	labelNamespace     = "projectcalico.org/namespace"
	labelOrchestrator  = "projectcalico.org/orchestrator"
	labelAccount       = "projectcalico.org/serviceaccount"
	labelProfileName   = "projectcalico.org/name"
	ofNamespace        = "pcns."
	ofAccount          = "pcsa."
	everyNamespace     = "all()"
	outsideOfNamespace = "global()"
)

const labelName = corev1.LabelMetadataName
