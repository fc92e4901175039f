package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestMisserved checks the faults of a DNS Service besides missing endpoints.
func TestMisserved(t *testing.T) {
	t.Parallel()
	port := func(protocol corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Port: 53, Protocol: protocol}
	}
	for name, c := range map[string]struct {
		label string
		ports []corev1.ServicePort
		want  string
	}{
		"well":        {"", []corev1.ServicePort{port(corev1.ProtocolUDP), port(corev1.ProtocolTCP)}, ""},
		"no UDP":      {"", []corev1.ServicePort{port(corev1.ProtocolTCP)}, facts.EmptyNoUDP},
		"UDP alone":   {"", []corev1.ServicePort{port(corev1.ProtocolUDP)}, ""},
		"another one": {"cilium", []corev1.ServicePort{port(corev1.ProtocolUDP)}, facts.EmptyOtherProxy},
	} {
		svc := &corev1.Service{Spec: corev1.ServiceSpec{Ports: c.ports}}
		if c.label != "" {
			svc.Labels = map[string]string{cluster.ProxyName: c.label}
		}
		if got, _ := serviceFault(svc); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestDNSService checks that the reason for missing endpoints is reported, and the missing rights of CoreDNS.
func TestDNSService(t *testing.T) {
	t.Parallel()
	const owner = `"ownerReferences":[{"kind":"ReplicaSet","controller":true,"name":"r","uid":"1","apiVersion":"apps/v1"}]`
	pod := func(name, label, ports, status string) string {
		return `{"metadata":{"name":"` + name + `","namespace":"kube-system","labels":{"k8s-app":"` + label + `"},` + owner +
			`},"spec":{"nodeName":"b","serviceAccountName":"coredns","containers":[{"name":"coredns","ports":[` + ports + `]}]},"status":` + status + `}`
	}
	const port, ready = `{"name":"dns","containerPort":53}`, `{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`
	const crash = `{"phase":"Running","containerStatuses":[{"name":"coredns","restartCount":4,"state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off"}},"lastState":{"terminated":{"reason":"OOMKilled","exitCode":137}}}]}`
	const pending = `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/3 nodes are available: 3 Insufficient cpu."}]}`
	const slow = `{"phase":"Running","containerStatuses":[{"name":"coredns","ready":false,"state":{"running":{}}}]}`
	const away = `{"phase":"Running","conditions":[{"type":"Ready","status":"False"}],"containerStatuses":[{"name":"coredns","ready":true,"state":{"running":{}}}]}`
	const failing = `{"metadata":{"namespace":"kube-system","name":"coredns"},"spec":{"replicas":2,"template":{"metadata":{"labels":{"k8s-app":"kube-dns"}}}},"status":{"conditions":[{"type":"ReplicaFailure","status":"True","message":"pods \"coredns-\" is forbidden: exceeded quota: team"}]}}`
	const dns, coredns = `"selector":{"k8s-app":"kube-dns"},`, `"selector":{"k8s-app":"coredns"},`
	const named = `"targetPort":"dns-udp"`
	for name, c := range map[string]struct {
		selector, target, pods, deployments, endpoints string
		status                                         probe.Status
		empty, saw                                     string
	}{
		"recorded: no such label": {coredns, "",
			pod("coredns-1", "kube-dns", port, ready) + "," + pod("other-1", "other", "", ready), "", "",
			probe.Warn, facts.EmptySelector, "k8s-app=coredns; pod kube-system/coredns-1 has k8s-app=kube-dns"},
		"nothing like it": {coredns, "", pod("other-1", "other", "", ready), "", "", probe.Warn, facts.EmptyAbsent, "its selector, k8s-app=coredns"},
		"killed":          {dns, "", pod("coredns-1", "kube-dns", port, crash), "", "", probe.Warn, facts.EmptyUnready, "waits on b: CrashLoopBackOff: back-off; its previous container exited 137: OOMKilled"},
		"no node for it":  {dns, "", pod("coredns-1", "kube-dns", port, pending), "", "", probe.Warn, facts.EmptyUnready, "has no node: Unschedulable: 0/3 nodes are available"},
		"its node is silent": {dns, "", pod("coredns-1", "kube-dns", port, away), "", "",
			probe.Warn, facts.EmptyUnready, "the kubelet has gone silent"},
		"it waits": {dns, "", pod("coredns-1", "kube-dns", port, slow), "", "", probe.Warn, facts.EmptyUnready,
			"its readiness probe fails"},
		"another port":  {dns, named, pod("coredns-1", "kube-dns", port, ready), "", "", probe.Warn, facts.EmptyPort, "targetPort dns-udp is not a container port"},
		"no controller": {dns, "", pod("coredns-1", "kube-dns", port, ready), "", "", probe.Warn, facts.EmptyController, "does kube-controller-manager run?"},
		"no selector": {"", "", pod("coredns-1", "kube-dns", port, ready), "", "", probe.Warn, facts.EmptyNoSelector,
			"it has no selector"},
		"refused": {dns, "", "", failing, "", probe.Warn, facts.EmptyNotMade, "exceeded quota: team"},
		"near: well": {dns, named, pod("coredns-1", "kube-dns", port, crash), "", `{"addresses":["10.244.0.5"]}`,
			probe.OK, "", "has a ready endpoint"},
	} {
		target := ""
		if c.target != "" {
			target = "," + c.target
		}
		client := clustertest.ServerOf(t, map[string]string{
			"/api/v1/namespaces/kube-system/services":                                `{"kind":"ServiceList","apiVersion":"v1","items":[{"metadata":{"name":"kube-dns","namespace":"kube-system","labels":{"k8s-app":"kube-dns"}},"spec":{` + c.selector + `"clusterIPs":["10.96.0.10"],"ports":[{"port":53` + target + `}]}}]}`,
			"/api/v1/namespaces/kube-system/pods":                                    `{"kind":"PodList","apiVersion":"v1","items":[` + c.pods + `]}`,
			"/apis/apps/v1/namespaces/kube-system/deployments":                       `{"kind":"DeploymentList","apiVersion":"apps/v1","items":[` + c.deployments + `]}`,
			"/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices":        `{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","items":[{"ports":[{"port":53}],"endpoints":[` + c.endpoints + `]}]}`,
			"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings":                 `{"kind":"ClusterRoleBindingList","apiVersion":"rbac.authorization.k8s.io/v1","items":[{"metadata":{"name":"b"},"roleRef":{"kind":"ClusterRole","name":"system:coredns"},"subjects":[{"kind":"ServiceAccount","name":"coredns","namespace":"kube-system"}]}]}`,
			"/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings": `{"kind":"RoleBindingList","apiVersion":"rbac.authorization.k8s.io/v1","items":[]}`,
			"/apis/rbac.authorization.k8s.io/v1/clusterroles/system:coredns":         `{"kind":"ClusterRole","apiVersion":"rbac.authorization.k8s.io/v1","rules":[{"verbs":["list","watch"],"apiGroups":[""],"resources":["services","namespaces"]}]}`,
		}, map[string]http.HandlerFunc{"/apis/authorization.k8s.io/v1/subjectaccessreviews": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}`))
		}})
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		s.DNS.Value, s.DNS.Err = client.ReadDNS(t.Context())
		got := ask(t, s, facts.CheckDNSService)
		at := slices.IndexFunc(got, func(r probe.Result) bool { return r.Target == "endpoints" })
		if at < 0 || got[at].Status != c.status || !strings.Contains(got[at].Saw, c.saw) ||
			got[at].Facts.Str(facts.Empty) != c.empty {
			t.Errorf("%s: %+v", name, got)
		}
		s.DNSServers.Value, s.DNSServers.Err = client.ReadDNSServers(t.Context())
		if strings.Contains(c.pods, "coredns-1") && strings.Join(s.DNSServers.Value.Rights.Lacks, ",") !=
			"list endpointslices,watch endpointslices" {
			t.Errorf("%s: %+v", name, s.DNSServers)
		}
	}
}

// TestDNSRights checks that a missing right is a fault only if no CoreDNS is ready without it.
func TestDNSRights(t *testing.T) {
	t.Parallel()
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	lacks := cluster.Rights{Account: "system:serviceaccount:kube-system:coredns", Checked: 6, Lacks: []string{"list endpointslices"}}
	roles := lacks
	roles.ByRoles = true
	for name, c := range map[string]struct {
		of     cluster.DNSServers
		status probe.Status
		saw    string
	}{
		"none is ready":  {cluster.DNSServers{Rights: lacks}, probe.Fail, "may not list endpointslices"},
		"one is ready":   {cluster.DNSServers{Rights: lacks, Ready: 1}, probe.Warn, "keeps serving what it has read"},
		"by roles alone": {cluster.DNSServers{Rights: roles}, probe.Warn, "by the roles and bindings"},
		"near: it has all": {cluster.DNSServers{Rights: cluster.Rights{Account: "a", Checked: 6}}, probe.OK,
			"has all 6 rights"},
		"near: another server": {cluster.DNSServers{}, probe.Skip, "no CoreDNS pod"},
	} {
		s.DNSServers.Value = c.of
		if r := dnsRights(s); r.Status != c.status || !strings.Contains(r.Saw, c.saw) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
