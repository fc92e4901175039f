package api

import (
	"cmp"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// typhaPort is the name of the Service port with which Felix finds Typha (typha/pkg/discovery).
const typhaPort = "calico-typha"

func typhaService(s *cluster.Snapshot, report func(probe.Result)) {
	name := s.Typha.Value.Name
	send := func(r probe.Result) { report(r.On(name).With(facts.Service, name)) }
	switch {
	case s.Calico.Err != nil:
		report(apicheck.Unread(cluster.SeeCalicoPod(s.Calico.Err)))
	case name == "":
		report(probe.Found(probe.Skip, "calico-node is not configured to use Typha"))
	case apierrors.IsNotFound(s.Typha.Err):
		send(probe.Found(probe.Fail,
			"this Service does not exist, but calico-node is configured to find Typha through it (FELIX_TYPHAK8SSERVICENAME)").
			With(probe.FactReason, facts.TyphaNoService))
	case s.Typha.Err != nil && !errors.Is(s.Typha.Err, cluster.ErrNoTypha):
		send(apicheck.Unread(s.Typha.Err))
	case !hasTyphaPort(s):
		send(probe.Found(probe.Fail, "the Service has no port named %s, which Felix needs to find Typha", typhaPort).
			With(probe.FactReason, facts.TyphaNoPort))
	case !hasEndpoint(s):
		send(probe.Found(probe.Fail, "%s", cmp.Or(s.Typha.Value.Why, "the Service has no ready endpoint")).With(probe.FactReason,
			facts.TyphaNoPods))
	default:
		send(probe.Found(probe.OK, "%s of Typha", cluster.Plural(len(s.Typha.Value.Targets), "endpoint")))
	}
}

// hasTyphaPort reports whether the Service has the port that Felix looks for, or may have it.
func hasTyphaPort(s *cluster.Snapshot) bool {
	svc := s.Typha.Value.Service
	return svc == nil || slices.ContainsFunc(svc.Spec.Ports,
		func(p corev1.ServicePort) bool { return p.Name == typhaPort })
}

// hasEndpoint reports whether Typha's Service has a ready endpoint.
func hasEndpoint(s *cluster.Snapshot) bool {
	return slices.ContainsFunc(s.Typha.Value.Targets, func(t probe.Target) bool { return t.Name == "endpoint" })
}
