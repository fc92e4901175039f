package api

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// lacksLocalEndpoint reports whether the DNS Service uses only endpoints of the same node, and this node has none.
func lacksLocalEndpoint(s *cluster.Snapshot) bool {
	policy := s.DNS.Value.Service.Spec.InternalTrafficPolicy
	here := func(t probe.Target) bool { return t.Name == "endpoint" && t.Node == s.Node.Name }
	return policy != nil && *policy == corev1.ServiceInternalTrafficPolicyLocal &&
		!slices.ContainsFunc(s.DNS.Value.Targets, here)
}

// serviceFault returns why a DNS Service reaches no server although it may have endpoints: one of the Empty words and a
// sentence. Both are "" without a fault.
func serviceFault(svc *corev1.Service) (word, what string) {
	if by, is := svc.Labels[cluster.ProxyName]; is {
		return facts.EmptyOtherProxy, fmt.Sprintf("has the label %s=%s, so kube-proxy leaves it to that program", cluster.ProxyName, probe.Quoted(by))
	}
	serves := func(protocol corev1.Protocol) bool {
		return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
			return p.Protocol == protocol && p.Port == 53
		})
	}
	if !serves(corev1.ProtocolTCP) || serves(corev1.ProtocolUDP) {
		return "", ""
	}
	var ports []string
	for _, p := range svc.Spec.Ports {
		ports = append(ports, fmt.Sprintf("%d %s", p.Port, p.Protocol))
	}
	return facts.EmptyNoUDP, "has no UDP port 53, to which clients send queries first; its ports: " + strings.Join(ports, ", ")
}

// dnsService judges the cluster DNS Service and the rights of its servers.
func dnsService(s *cluster.Snapshot, report func(probe.Result)) {
	if s.DNS.Err != nil {
		report(apicheck.Unread(s.DNS.Err).On("endpoints"))
		return
	}
	if s.DNS.Value.Service == nil || len(s.DNS.Value.Targets) == 0 {
		report(probe.Found(probe.Skip, "no Service in kube-system has the label k8s-app=kube-dns"))
		return
	}
	name := s.DNS.Value.Service.Namespace + "/" + s.DNS.Value.Service.Name
	if wrong, what := serviceFault(s.DNS.Value.Service); wrong != "" {
		// That program may be running, or the DNS may use another program. Only unresolved names make it a fault.
		report(probe.Found(probe.Info, "Service %s %s", name, what).On("endpoints").With(facts.Service, name).
			With(facts.Empty, wrong))
	} else if why := s.DNS.Value.Targets[0].Attrs[probe.AttrEmpty]; why != "" {
		report(probe.Found(probe.Warn, "%s", why).On("endpoints").With(facts.Service, name).
			With(facts.Empty, s.DNS.Value.Targets[0].Attrs[probe.AttrEmptyFor]))
	} else if lacksLocalEndpoint(s) {
		report(probe.Found(probe.Warn, "Service %s has internalTrafficPolicy Local, so each node uses only its own endpoints, "+
			"and this node has none", name).On("endpoints").With(facts.Service, name).With(facts.Empty, facts.EmptyLocal))
	} else {
		report(probe.Found(probe.OK, "Service %s has a ready endpoint", name).On("endpoints").With(facts.Service, name))
	}
	report(dnsRights(s).On("account"))
	if r, known := zonesResult(s.DNSServers.Value.Config); known {
		report(r.On("zones"))
	}
}

// dnsRights is the result about the account of CoreDNS.
func dnsRights(s *cluster.Snapshot) probe.Result {
	switch r, err := s.DNSServers.Value.Rights, s.DNSServers.Err; {
	case cluster.UsesEndpoints(s.Node.Status.NodeInfo.KubeletVersion):
		return probe.Found(probe.Skip, "a CoreDNS of this version may still read endpoints instead of endpointslices")
	case apierrors.IsForbidden(err):
		return probe.Found(probe.Skip, "CoreDNS's rights are unknown: you may not create subjectaccessreviews or read roles and bindings")
	case err != nil:
		return probe.Failed(err)
	case r.Account == "":
		return probe.Found(probe.Skip, "no CoreDNS pod was found, so its ServiceAccount and rights are unknown")
	case len(r.Lacks) == 0:
		return probe.Found(probe.OK, "%s has all %d rights that CoreDNS needs%s", r.Account, r.Checked, r.Source())
	default:
		status, more := probe.Fail, ""
		if s.DNSServers.Value.Ready > 0 { // CoreDNS keeps its data, or its Corefile does not need the right
			status, more = probe.Warn, "; a ready CoreDNS keeps serving what it has read"
		} else if r.ByRoles {
			status = probe.Warn // another authorizer may grant the right
		}
		return probe.Found(status, "%s may not %s, which CoreDNS needs%s%s", r.Account, strings.Join(r.Lacks, ", "),
			r.Source(), more).
			With(facts.Account, strings.TrimPrefix(r.Account, "system:serviceaccount:")).With(facts.Lacks, r.Lacks).
			With(facts.Later, s.DNSServers.Value.Ready > 0)
	}
}
