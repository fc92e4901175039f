// Package install lists the rights that each use of this program needs on a cluster, and generates manifests with
// exactly these rights:
//
//	Uses, Named -> Objects(Options), ServeObjects(Options, Serve) -> YAML
//
// The Helm chart and the table of rights in the documents are generated from the same list. The package does not change
// a cluster: an administrator applies its output.
package install

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Scope is the part of a cluster in which a right applies.
type Scope string

// The scopes: the whole cluster, or one namespace.
const (
	Cluster Scope = "cluster"
	Probe   Scope = "probe"           // the namespace of probe pods
	Calico  Scope = "calico"          // the namespace of calico-node
	Leases  Scope = "kube-node-lease" // kubelets renew their leases there
	Default Scope = "default"         // events about nodes are there
)

var scopes = []Scope{Cluster, Probe, Calico, Leases, Default}

// A Right is one verb on one resource.
type Right struct {
	In       Scope
	Groups   []string // one group is enough; "" is the core group
	Resource string   // with its subresource: pods/attach
	Names    []string // restricts the right to objects with these names; nil = all
	Verb     string
	Without  string // what does not work without the right; "" = the whole use fails
}

// String returns the right in the form for messages, such as "create pods/attach".
func (r Right) String() string {
	name := r.Resource
	if g := r.Groups[len(r.Groups)-1]; g != "" {
		name += "." + g
	}
	return r.Verb + " " + name
}

// A Use is a feature of this program that needs rights, such as an access method.
type Use struct {
	Name   string
	Does   string
	Rights []Right // in addition to the rights of use api
	As     string  // the use with the same rights; "" = none
}

// Uses lists all uses. api is the first, because the other uses need its rights.
func Uses() []Use {
	return []Use{
		{Name: "api", Does: "read the node's objects from the API", Rights: reading()},
		{Name: "pod", Does: "a probe in its own pod", Rights: slices.Concat(
			lost(Probe, "", "pods", []string{"create"}, ""),
			lost(Probe, "", "pods", []string{"delete"}, "the clean-up job removes the pod some seconds later"),
			talking(Probe),
			lost(Probe, "batch", "jobs", []string{"create"}, "pods of a killed client remain until their deadline or until 'clean' removes them"),
			lost(Probe, "batch", "jobs", []string{"patch"}, "runs longer than 40 seconds are cut off"),
			lost(Probe, "batch", "jobs", []string{"delete"}, "the job expires within 40 seconds"),
		)},
		{Name: "ephemeral", Does: "a probe in the node's calico-node pod", Rights: slices.Concat(
			lost(Calico, "", "pods/ephemeralcontainers", []string{"patch"}, ""),
			talking(Calico),
		)},
		{Name: "exec", Does: "a probe uploaded into a running container of calico-node's namespace", Rights: slices.Concat(
			lost(Calico, "", "pods/exec", []string{"create"}, ""),
			lost(Calico, "", "pods/exec", []string{"get"}, spdy),
		)},
		{Name: "ssh", Does: "a probe uploaded with your own ssh"},
		{Name: "outside", Does: "probes on healthy nodes that test the node from there", As: "pod"},
		{Name: "kubelet", Does: "query the node's kubelet through the API server; equivalent to root on the nodes",
			Rights: lost(Cluster, "", "nodes/proxy", []string{"get"}, "")},
		{Name: "shell", Does: "a session, with a second, privileged pod for its root shell", As: "pod"},
		{Name: "clean", Does: "remove objects that killed clients left behind", Rights: slices.Concat(
			lost(Cluster, "batch", "jobs", []string{"list"}, "cannot find leftover clean-up jobs"),
			lost(Probe, "", "pods", []string{"delete"}, "leftover pods remain until their deadline"),
			lost(Probe, "batch", "jobs", []string{"delete"}, "leftover jobs expire within 40 seconds"),
		)},
		{Name: "conditions", Does: "write the verdict on each node as a condition",
			Rights: lost(Cluster, "", "nodes/status", []string{"patch"}, "")},
		{Name: "serve", Does: "receive alerts, and record the results as events on nodes", Rights: slices.Concat(
			lost(Default, "", "events", []string{"create"}, "nodes do not get an event with the result of an alert"),
			lost(Default, "", "events", []string{"patch"}, "if a job runs again after a kill, its event keeps the first result"),
		)},
	}
}

// calicoGroups are the API groups of Calico's resources.
var calicoGroups = []string{"crd.projectcalico.org", "projectcalico.org"}

// reading returns the rights that a snapshot of the API needs.
func reading() []Right {
	out := slices.Concat(
		lost(Cluster, "", "nodes", []string{"list"}, ""),
		lost(Cluster, "", "pods", []string{"list"}, "calico-node's pod and the target pods are unknown"),
		lost(Cluster, "", "pods", []string{"get"}, "cannot find a probe again after a lost connection, or find a borrowed address"),
		lost(Cluster, "", "services", []string{"get"}, "the addresses of the API server and Typha are unknown"),
		lost(Cluster, "", "services", []string{"list"}, "services and cluster DNS are not tested"),
		lost(Cluster, "discovery.k8s.io", "endpointslices", []string{"list"}, "the endpoints of services are not tested"),
		lost(Cluster, "apps", "deployments", []string{"list"}, "the desired replicas of cluster DNS and calico-kube-controllers are unknown"),
		lost(Cluster, "", "events", []string{"list"}, "less information on why pods do not start"),
		lost(Cluster, "networking.k8s.io", "networkpolicies", []string{"list"}, "cannot check whether a policy forbids a test"),
		lost(Cluster, "", "namespaces", []string{"list"}, "cannot check policies that select namespaces by label"),
		lost(Leases, "coordination.k8s.io", "leases", []string{"get"}, "cannot see whether the kubelet is silent"),
		lost(Leases, "coordination.k8s.io", "leases", []string{"list"}, "a session's list of nodes does not show silent kubelets"),
	)
	// In any namespace of calico-node, these are the names in Calico's manifests.
	config := lost(Cluster, "", "configmaps", []string{"get"}, "Calico's backend and Typha are unknown if manifests installed it")
	config[0].Names = []string{"calico-config", "canal-config", "kubernetes-services-endpoint"}
	out = append(out, config...)
	accounts := lost(Cluster, "", "serviceaccounts", []string{"get"}, "cannot check whether the accounts of Calico's components exist")
	accounts[0].Names = []string{"calico-node", "calico-cni-plugin", "calico-kube-controllers"}
	out = append(out, accounts...)
	for _, r := range []struct{ resource, without string }{
		{"felixconfigurations", "Felix is checked on its default port"},
		{"clusterinformations", "cannot see whether Calico marks its datastore as ready"},
		{"ippools", "the pods' address ranges are unknown"},
		{"bgpconfigurations", "the configured BGP peers are unknown"},
		{"bgppeers", "the configured BGP peers are unknown"},
		{"blockaffinities", "the address blocks of each node are unknown"},
		{"ipamblocks", "borrowed and free addresses are unknown"},
		{"ipamconfigs", "cannot check whether IPAM has an address for new pods"},
		{"ipamconfigurations", "cannot check whether IPAM has an address for new pods"},
		{"ipreservations", "cannot check whether IPAM has an address for new pods"},
		{"networkpolicies", "cannot check whether a policy forbids a test"},
		{"globalnetworkpolicies", "cannot check whether a policy forbids a test"},
		{"globalnetworksets", "cannot check policies that use a network set"},
		{"networksets", "cannot check policies that use a network set"},
		{"hostendpoints", "cannot check whether a HostEndpoint blocks ports of the node"},
		{"tiers", "cannot be sure that a policy denies a test"},
	} {
		out = append(out, Right{In: Cluster, Groups: calicoGroups, Resource: r.resource, Verb: "list", Without: r.without})
	}
	out = append(out, lost(Cluster, "authorization.k8s.io", "subjectaccessreviews", []string{"create"},
		"cannot check the rights of calico-node's and kube-proxy's accounts")...)
	out = append(out, lost(Cluster, "apps", "daemonsets", []string{"list"}, "cannot see why a node does not have calico-node")...)
	for _, kind := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
		out = append(out, lost(Cluster, "admissionregistration.k8s.io", kind, []string{"list"},
			"cannot check whether an unavailable webhook blocks the node")...)
	}
	for _, kind := range []string{"adminnetworkpolicies", "clusternetworkpolicies"} {
		out = append(out, lost(Cluster, "policy.networking.k8s.io", kind, []string{"list"},
			"cannot be sure that a policy denies a test")...)
	}
	return append(out, lost(Cluster, "migration.projectcalico.org", "datastoremigrations", []string{"list"},
		"cannot check whether a migration locks Calico's datastore")...)
}

// spdy describes the effect of a missing right to GET, which WebSocket connections need.
const spdy = "the connection uses SPDY, which some proxies block"

// talking returns the rights to watch a probe start in a namespace and to communicate with it, without the right to
// read pods.
func talking(in Scope) []Right {
	return slices.Concat(
		lost(in, "", "pods", []string{"watch"}, "the pod is polled twice a second instead"),
		lost(in, "", "events", []string{"list"}, "less information on why a probe does not start"),
		lost(in, "", "pods/attach", []string{"create"}, ""),
		lost(in, "", "pods/attach", []string{"get"}, spdy),
		lost(in, "", "pods/log", []string{"get"}, "an interrupted answer cannot be read again"),
	)
}

func lost(in Scope, group, resource string, verbs []string, without string) []Right {
	var out []Right
	for _, v := range verbs {
		out = append(out, Right{In: in, Groups: []string{group}, Resource: resource, Verb: v, Without: without})
	}
	return out
}

// Named returns each use with one of these names once, with its own rights. api is the first. An unknown name is an
// error.
func Named(names ...string) ([]Use, error) {
	want := []string{"api"}
	for _, name := range names {
		i := slices.IndexFunc(Uses(), func(u Use) bool { return u.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown access method %q: there are %s", name, strings.Join(Names(), ", "))
		}
		want = append(want, cmp.Or(Uses()[i].As, name))
	}
	return slices.DeleteFunc(Uses(), func(u Use) bool {
		return !slices.Contains(want, u.Name) || u.Name != "api" && len(u.Rights) == 0
	}), nil
}

// Names lists the names of all uses.
func Names() []string {
	var out []string
	for _, u := range Uses() {
		out = append(out, u.Name)
	}
	return out
}

// People lists the uses for people. It omits the uses of unattended programs, which have separate accounts, and
// kubelet, which must be requested by name.
func People() []string {
	return slices.DeleteFunc(Names(), func(name string) bool {
		return slices.Contains([]string{"serve", "conditions", "kubelet"}, name)
	})
}

// rulesIn returns the rules of a use in a scope. Resources with the same verbs share a rule.
func rulesIn(rights []Right, in Scope) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, r := range rights {
		if r.In != in {
			continue
		}
		same := func(p rbacv1.PolicyRule) bool {
			return p.Resources[0] == r.Resource && slices.Equal(p.APIGroups, r.Groups)
		}
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i].Verbs = append(out[i].Verbs, r.Verb)
			continue
		}
		out = append(out, rbacv1.PolicyRule{
			APIGroups: r.Groups, Resources: []string{r.Resource}, ResourceNames: r.Names, Verbs: []string{r.Verb},
		})
	}
	var merged []rbacv1.PolicyRule
	for _, p := range out {
		alike := func(q rbacv1.PolicyRule) bool {
			return slices.Equal(p.APIGroups, q.APIGroups) && slices.Equal(p.Verbs, q.Verbs) &&
				slices.Equal(p.ResourceNames, q.ResourceNames)
		}
		if i := slices.IndexFunc(merged, alike); i >= 0 {
			merged[i].Resources = append(merged[i].Resources, p.Resources...)
			continue
		}
		merged = append(merged, p)
	}
	return merged
}
