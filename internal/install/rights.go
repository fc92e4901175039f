// Package install lists the rights that each use of this program needs on a cluster, and makes the manifests that
// grant exactly these:
//
//	Uses, Named -> Objects(Options), ServeObjects(Options, Serve) -> YAML
//
// The Helm chart and the table of rights in the documents are generated from the same list. The package changes no
// cluster: an administrator applies its output.
package install

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Scope is where a right applies.
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
	Groups   []string // one of them is enough; "" is the core group
	Resource string   // with its subresource: pods/attach
	Names    []string // only objects of these names, nil = all
	Verb     string
	Without  string // what is lost without it; "" = the whole use fails
}

// String is the form for messages: "create pods/attach".
func (r Right) String() string {
	name := r.Resource
	if g := r.Groups[len(r.Groups)-1]; g != "" {
		name += "." + g
	}
	return r.Verb + " " + name
}

// A Use is something that this program can do, such as an access method.
type Use struct {
	Name   string
	Does   string
	Rights []Right // in addition to those of api, which each use has
	As     string  // the use with the same rights; "" = none
}

// Uses lists all uses, api first, since the others need its rights.
func Uses() []Use {
	return []Use{
		{Name: "api", Does: "read what the API knows of a node", Rights: reading()},
		{Name: "pod", Does: "a probe in a pod of its own", Rights: slices.Concat(
			lost(Probe, "", "pods", []string{"create"}, ""),
			lost(Probe, "", "pods", []string{"delete"}, "the pod is removed by its job, some seconds later"),
			talking(Probe),
			lost(Probe, "batch", "jobs", []string{"create"}, "what a killed client leaves stays until its deadline and 'clean'"),
			lost(Probe, "batch", "jobs", []string{"patch"}, "a run that takes longer than 40 seconds is cut"),
			lost(Probe, "batch", "jobs", []string{"delete"}, "the job goes by itself, within 40 seconds"),
		)},
		{Name: "ephemeral", Does: "a probe in the node's calico-node pod", Rights: slices.Concat(
			lost(Calico, "", "pods/ephemeralcontainers", []string{"patch"}, ""),
			talking(Calico),
		)},
		{Name: "exec", Does: "a probe uploaded into a running container of calico-node's namespace", Rights: slices.Concat(
			lost(Calico, "", "pods/exec", []string{"create"}, ""),
			lost(Calico, "", "pods/exec", []string{"get"}, spdy),
		)},
		{Name: "ssh", Does: "a probe uploaded by your own ssh"},
		{Name: "neighbour", Does: "probes on healthy nodes that test the node from there", As: "pod"},
		{Name: "kubelet", Does: "ask the node's kubelet, through the API server; as good as root on the nodes",
			Rights: lost(Cluster, "", "nodes/proxy", []string{"get"}, "")},
		{Name: "shell", Does: "a session; for its root shell a second, privileged pod", As: "pod"},
		{Name: "clean", Does: "remove what killed clients have left", Rights: slices.Concat(
			lost(Cluster, "batch", "jobs", []string{"list"}, "clean-up jobs that were left are not seen"),
			lost(Probe, "", "pods", []string{"delete"}, "pods that were left stay until their deadline"),
			lost(Probe, "batch", "jobs", []string{"delete"}, "jobs that were left go by themselves, within 40 seconds"),
		)},
		{Name: "conditions", Does: "write what is found of each node as a condition of its own",
			Rights: lost(Cluster, "", "nodes/status", []string{"patch"}, "")},
		{Name: "serve", Does: "take alerts, and say on nodes what came of them", Rights: slices.Concat(
			lost(Default, "", "events", []string{"create"}, "what came of an alert is not said on its node"),
			lost(Default, "", "events", []string{"patch"}, "of a job that was done again, after a kill, the event says what came of it first"),
		)},
	}
}

// calicoGroups are the API groups of Calico's resources.
var calicoGroups = []string{"crd.projectcalico.org", "projectcalico.org"}

// reading are the rights that a snapshot of the API needs.
func reading() []Right {
	out := slices.Concat(
		lost(Cluster, "", "nodes", []string{"list"}, ""),
		lost(Cluster, "", "pods", []string{"list"}, "calico-node's pod and the pods to ask about are not known"),
		lost(Cluster, "", "pods", []string{"get"}, "a probe whose connection was lost is not found again, nor is a borrowed address"),
		lost(Cluster, "", "services", []string{"get"}, "where the API server and Typha are is not known"),
		lost(Cluster, "", "services", []string{"list"}, "no service is asked, nor the cluster's DNS"),
		lost(Cluster, "discovery.k8s.io", "endpointslices", []string{"list"}, "no service is asked at its endpoints"),
		lost(Cluster, "apps", "deployments", []string{"list"}, "how many replicas the cluster's DNS and calico-kube-controllers should have is not known"),
		lost(Cluster, "", "events", []string{"list"}, "why pods do not start is known less well"),
		lost(Cluster, "networking.k8s.io", "networkpolicies", []string{"list"}, "whether a policy forbids what was asked is not known"),
		lost(Cluster, "", "namespaces", []string{"list"}, "whether a policy by labels of namespaces denies what was asked is not known"),
		lost(Leases, "coordination.k8s.io", "leases", []string{"get"}, "whether the kubelet is silent is not known"),
		lost(Leases, "coordination.k8s.io", "leases", []string{"list"}, "a session's list of nodes does not know silent kubelets"),
	)
	// For any namespace of calico-node: these are the names in Calico's manifests.
	config := lost(Cluster, "", "configmaps", []string{"get"}, "Calico's backend and Typha are not known where manifests installed it")
	config[0].Names = []string{"calico-config", "canal-config", "kubernetes-services-endpoint"}
	out = append(out, config...)
	accounts := lost(Cluster, "", "serviceaccounts", []string{"get"}, "whether the accounts of Calico's parts are there is not known")
	accounts[0].Names = []string{"calico-node", "calico-cni-plugin", "calico-kube-controllers"}
	out = append(out, accounts...)
	for _, r := range []struct{ resource, without string }{
		{"felixconfigurations", "Felix is asked at its default port"},
		{"clusterinformations", "whether Calico calls its datastore ready is not known"},
		{"ippools", "which addresses are pods' is not known"},
		{"bgpconfigurations", "which BGP peers there should be is not known"},
		{"bgppeers", "which BGP peers there should be is not known"},
		{"blockaffinities", "which node has which pods' addresses is not known"},
		{"ipamblocks", "addresses borrowed from another node's block are not known, nor those that are free"},
		{"ipamconfigs", "whether IPAM has an address for new pods is not known"},
		{"ipamconfigurations", "whether IPAM has an address for new pods is not known"},
		{"ipreservations", "whether IPAM has an address for new pods is not known"},
		{"networkpolicies", "whether a policy forbids what was asked is not known"},
		{"globalnetworkpolicies", "whether a policy forbids what was asked is not known"},
		{"globalnetworksets", "whether a policy by a network set denies what was asked is not known"},
		{"networksets", "whether a policy by a network set denies what was asked is not known"},
		{"hostendpoints", "whether a HostEndpoint shuts ports of the node is not known"},
		{"tiers", "whether a policy surely denies what was asked is not known"},
	} {
		out = append(out, Right{In: Cluster, Groups: calicoGroups, Resource: r.resource, Verb: "list", Without: r.without})
	}
	out = append(out, lost(Cluster, "authorization.k8s.io", "subjectaccessreviews", []string{"create"},
		"whether the accounts of calico-node and kube-proxy may do what they need is not known")...)
	out = append(out, lost(Cluster, "apps", "daemonsets", []string{"list"}, "why a node has no calico-node is not known")...)
	for _, kind := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
		out = append(out, lost(Cluster, "admissionregistration.k8s.io", kind, []string{"list"},
			"whether a webhook that nobody answers for stops the node is not known")...)
	}
	for _, kind := range []string{"adminnetworkpolicies", "clusternetworkpolicies"} {
		out = append(out, lost(Cluster, "policy.networking.k8s.io", kind, []string{"list"},
			"whether a policy surely denies what was asked is not known")...)
	}
	return append(out, lost(Cluster, "migration.projectcalico.org", "datastoremigrations", []string{"list"},
		"whether a migration keeps Calico's datastore locked is not known")...)
}

// spdy is what is lost without the right to GET, which WebSocket connections need.
const spdy = "the line is made by SPDY, which not every proxy lets through"

// talking are the rights, beside reading pods, to watch a probe start in a namespace and to communicate with it.
func talking(in Scope) []Right {
	return slices.Concat(
		lost(in, "", "pods", []string{"watch"}, "the pod is looked at twice a second instead"),
		lost(in, "", "events", []string{"list"}, "why a probe does not start is known less well"),
		lost(in, "", "pods/attach", []string{"create"}, ""),
		lost(in, "", "pods/attach", []string{"get"}, spdy),
		lost(in, "", "pods/log", []string{"get"}, "an answer that breaks off is not read again"),
	)
}

func lost(in Scope, group, resource string, verbs []string, without string) []Right {
	var out []Right
	for _, v := range verbs {
		out = append(out, Right{In: in, Groups: []string{group}, Resource: resource, Verb: v, Without: without})
	}
	return out
}

// Named returns the uses of these names with their own rights, api first and each once. An unknown name is an error.
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

// People lists the uses for people. It omits those of programs that run unattended, which have accounts of their own,
// and kubelet, which must be requested by name.
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
