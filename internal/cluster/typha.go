package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// typhaPort is the name of the port by which Felix finds Typha (typha/pkg/discovery).
const typhaPort = "calico-typha"

// typhaOf is the Service in which calico-node looks for Typha, "" = it is configured to use none, or an
// address, or that is not known.
func typhaOf(env environment) string {
	name, err := env.get("FELIX_TYPHAK8SSERVICENAME")
	address, other := env.get("FELIX_TYPHAADDR")
	namespace, last := env.get("FELIX_TYPHAK8SNAMESPACE")
	if err != nil || other != nil || last != nil || name == "" || name == "none" || address != "" {
		return ""
	}
	return probe.OneLine(cmp.Or(namespace, metav1.NamespaceSystem) + "/" + name)
}

// typha is the Typha that calico-node is configured to use.
type typha struct {
	service string         // NAMESPACE/NAME, "" = Calico uses none here
	targets []probe.Target // its endpoints
	why     string         // why there is no ready one, where that is so
}

// readTypha reads it. The Services are all there are.
func (c *Client) readTypha(ctx context.Context, env environment, services []corev1.Service) (typha, error) {
	out := typha{service: typhaOf(env)}
	var err error
	out.targets, err = c.readTyphas(ctx, env)
	if svc := out.in(services); svc != nil && errors.Is(err, errNoTypha) {
		out.why, _ = c.whyEmpty(ctx, svc)
	}
	return out, err
}

func typhaService(s *Snapshot, report func(probe.Result)) {
	name := s.typha.Value.service
	tell := func(r probe.Result) { report(r.On(name).With(facts.Service, name)) }
	switch {
	case s.Calico.Err != nil:
		report(unread(elsewhereSaid(s.Calico.Err)))
	case name == "":
		report(probe.Found(probe.Skip, "calico-node is not configured to look for Typha"))
	case apierrors.IsNotFound(s.typha.Err):
		tell(probe.Found(probe.Fail,
			"there is no such Service, and calico-node is configured to look for Typha in it (FELIX_TYPHAK8SSERVICENAME)").
			With(probe.FactReason, facts.TyphaNoService))
	case s.typha.Err != nil && !errors.Is(s.typha.Err, errNoTypha):
		tell(unread(s.typha.Err))
	case !s.typhaNamed():
		tell(probe.Found(probe.Fail, "it has no port named %s, by which Felix finds Typha", typhaPort).
			With(probe.FactReason, facts.TyphaNoPort))
	case !s.typhaServed():
		tell(probe.Found(probe.Fail, "%s", cmp.Or(s.typha.Value.why, "it has no ready endpoint")).With(probe.FactReason,
			facts.TyphaNoPods))
	default:
		tell(probe.Found(probe.OK, "%s of Typha", plural(len(s.typha.Value.targets), "endpoint")))
	}
}

// in returns Typha's Service among those that were listed, nil = it is not known.
func (t typha) in(services []corev1.Service) *corev1.Service {
	for i, svc := range services {
		if svc.Namespace+"/"+svc.Name == t.service {
			return &services[i]
		}
	}
	return nil
}

// typhaNamed tells whether the Service has the port that Felix looks for, as far as is known.
func (s *Snapshot) typhaNamed() bool {
	svc := s.typha.Value.in(s.allServices.Value)
	return svc == nil || slices.ContainsFunc(svc.Spec.Ports,
		func(p corev1.ServicePort) bool { return p.Name == typhaPort })
}

// typhaServed tells whether Typha's Service has a ready endpoint.
func (s *Snapshot) typhaServed() bool {
	return slices.ContainsFunc(s.typha.Value.targets, func(t probe.Target) bool { return t.Name == "endpoint" })
}
