package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// typhaPort is the name of the port by which Felix finds Typha (typha/pkg/discovery).
const typhaPort = "calico-typha"

// typha is the Typha that calico-node is configured to use.
type typha struct {
	name    string          // of its Service, NAMESPACE/NAME, "" = Calico uses none, or an address, or that is not known
	service *corev1.Service // nil = not known
	targets []probe.Target  // its endpoints
	why     string          // why there is no ready one, where that is so
}

// readTypha lists the Typhas that Felix on this node may choose from; none where
// it is not configured to use one.
func (c *Client) readTypha(ctx context.Context, env environment) (out typha, err error) {
	name, err := env.get("FELIX_TYPHAK8SSERVICENAME")
	if err != nil || name == "" || name == "none" { // as Calico's manifests have it
		return out, err
	}
	namespace, err := env.get("FELIX_TYPHAK8SNAMESPACE")
	if err != nil {
		return out, err
	}
	at := cmp.Or(namespace, metav1.NamespaceSystem) + "/" + name
	if address, err := env.get("FELIX_TYPHAADDR"); err == nil && address == "" {
		out.name = probe.OneLine(at)
	}
	svc, err := c.kube.CoreV1().Services(namespaceOf(at)).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return out, fmt.Errorf("reading Typha's service %s: %w", at, err)
	}
	out.service = svc
	all, err := c.readService(ctx, probe.KindTypha, svc)
	// Felix looks up the endpoints itself and never uses the service's address.
	out.targets = slices.DeleteFunc(all, func(t probe.Target) bool { return t.Name == "service" })
	if err == nil && len(out.targets) == 0 {
		out.why, _, _ = c.whyEmpty(ctx, svc)
		err = fmt.Errorf("%w %s", errNoTypha, at)
	}
	return out, err
}

// errNoTypha is a Service of Typha's that was read and has no endpoint at all.
var errNoTypha = errors.New("no endpoint in Typha's service")

func typhaService(s *Snapshot, report func(probe.Result)) {
	name := s.typha.Value.name
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

// typhaNamed tells whether the Service has the port that Felix looks for, as far as is known.
func (s *Snapshot) typhaNamed() bool {
	svc := s.typha.Value.service
	return svc == nil || slices.ContainsFunc(svc.Spec.Ports,
		func(p corev1.ServicePort) bool { return p.Name == typhaPort })
}

// typhaServed tells whether Typha's Service has a ready endpoint.
func (s *Snapshot) typhaServed() bool {
	return slices.ContainsFunc(s.typha.Value.targets, func(t probe.Target) bool { return t.Name == "endpoint" })
}
