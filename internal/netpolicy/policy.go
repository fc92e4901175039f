// Package netpolicy computes which packets the network policies of Kubernetes and Calico deny:
//
//	OfKubernetes, OfCalico, NewSet -> Policies.Sort -> On(pod), Sends(flow), WithoutDNS(pod, servers), AtHost(labels)
//
// It reports a denial only if the denial is certain. If the answer depends on something unknown, it reports that the
// packets may pass. "Denied" has this meaning everywhere in this package. It does not send API requests: package
// cluster reads the objects and stores them in Policies.
package netpolicy

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// Policy is an object that may deny packets from or to the pods that it selects.
type Policy struct {
	name      string                       // includes the kind
	namespace string                       // "" = in all namespaces
	selects   func(map[string]string) bool // Kubernetes' selector; nil for a Calico policy
	text      string                       // Calico's selector
	ruling
}

// Policies holds the policies of Kubernetes and of Calico. For their tests, callers prefer a pod that no policy
// selects.
type Policies struct {
	List   []Policy                  // in order of evaluation
	Unread error                     // why the list is incomplete
	Tiers  map[string]map[string]any // the spec of each
	Other  error                     // why no denial is certain: kinds of policies that were not evaluated or not read
	// what selectors may match in addition to pods, and the labels of namespaces; nil = unknown
	Sets       []Set
	SetsUnread error
	Names      map[string]map[string]string
	parsed     *parsedSelectors
}

// A ruling records what a policy does with the packets of a pod that it selects.
type ruling struct {
	tier  string
	order float64
	vague bool              // its selector could not be parsed
	whom  entity            // the additional requirements of its namespace and account selectors
	rules map[string][]rule // for each direction to which the policy applies
}

// rule is one rule of a policy. The order of rules matters.
type rule struct {
	action                string // Allow, Deny, Pass or Log
	all                   bool   // it matches every packet
	pods                  bool   // it matches only packets of certain pods, by their labels
	protocol, notProtocol string // in capitals, or a number; "" = all
	version               int    // IP version; 0 = both
	icmp                  bool   // it matches only some types of ICMP
	src, dst              entity
}

// byNets reports whether a rule matches receivers only by their addresses.
func (r *rule) byNets() bool { return len(r.dst.nets) > 0 && !r.dst.selects() && r.dst.service == "" }

// entity holds a rule's requirements for one end, in Calico's terms.
type entity struct {
	of                   string // the policy's namespace
	selector, namespaces string
	notSelector          string
	accounts             []string
	accountSelector      string
	nets, notNets        []netip.Prefix
	badNets              bool // some could not be parsed
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

// A Set is a network set: addresses, in addition to pods, that a selector may match.
type Set struct {
	name      string // includes the kind
	namespace string // "" = a GlobalNetworkSet
	labels    map[string]string
	nets      []netip.Prefix
	Bad       bool // some could not be parsed
}

// The tier of Kubernetes' policies, and their order in this tier (libcalico-go, k8s/conversion).
const (
	tierDefault     = "default"
	orderKubernetes = 1000
)

// directions are the two directions of policies, with their names in Calico, in Kubernetes and in a target's attribute.
var directions = []struct{ name, is, rules string }{
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
