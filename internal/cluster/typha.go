package cluster

import (
	"cmp"
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

func typhaService(s *Snapshot, report func(probe.Result)) {
	name := s.typhaName
	tell := func(r probe.Result) { report(r.On(name).With(facts.Service, name)) }
	switch {
	case s.CalicoErr != nil:
		report(unread(elsewhereSaid(s.CalicoErr)))
	case name == "":
		report(probe.Found(probe.Skip, "calico-node is not configured to look for Typha"))
	case apierrors.IsNotFound(s.typhaErr):
		tell(probe.Found(probe.Fail,
			"there is no such Service, and calico-node is configured to look for Typha in it (FELIX_TYPHAK8SSERVICENAME)").
			With(probe.FactReason, facts.TyphaNoService))
	case s.typhaErr != nil && !errors.Is(s.typhaErr, errNoTypha):
		tell(unread(s.typhaErr))
	case !s.typhaNamed():
		tell(probe.Found(probe.Fail, "it has no port named %s, by which Felix finds Typha", typhaPort).
			With(probe.FactReason, facts.TyphaNoPort))
	case !s.typhaServed():
		tell(probe.Found(probe.Fail, "%s", cmp.Or(s.typhaWhy, "it has no ready endpoint")).With(probe.FactReason,
			facts.TyphaNoPods))
	default:
		tell(probe.Found(probe.OK, "%s of Typha", plural(len(s.typha), "endpoint")))
	}
}

// typhaSvc is Typha's Service as it was listed, nil = not known.
func (s *Snapshot) typhaSvc() *corev1.Service {
	for i, svc := range s.allServices {
		if svc.Namespace+"/"+svc.Name == s.typhaName {
			return &s.allServices[i]
		}
	}
	return nil
}

// typhaNamed tells whether the Service has the port that Felix looks for, as far as is known.
func (s *Snapshot) typhaNamed() bool {
	svc := s.typhaSvc()
	return svc == nil || slices.ContainsFunc(svc.Spec.Ports,
		func(p corev1.ServicePort) bool { return p.Name == typhaPort })
}

// typhaServed tells whether Typha's Service has a ready endpoint.
func (s *Snapshot) typhaServed() bool {
	return slices.ContainsFunc(s.typha, func(t probe.Target) bool { return t.Name == "endpoint" })
}
