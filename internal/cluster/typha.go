package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// Typha describes the Typha configured for calico-node.
type Typha struct {
	Name    string          // its Service as NAMESPACE/NAME; "" = unknown, or Calico uses an address or no Typha
	Service *corev1.Service // nil = unknown
	Targets []probe.Target  // its endpoints
	Why     string          // why no endpoint is ready; "" = at least one is
}

// readTypha lists the Typhas from which this node's Felix may choose. It is empty if Felix does not use Typha.
func (c *Client) readTypha(ctx context.Context, env environment) (out Typha, err error) {
	name, err := env.get("FELIX_TYPHAK8SSERVICENAME")
	if err != nil || name == "" || name == "none" { // "none" is from Calico's manifests
		return out, err
	}
	namespace, err := env.get("FELIX_TYPHAK8SNAMESPACE")
	if err != nil {
		return out, err
	}
	at := cmp.Or(namespace, metav1.NamespaceSystem) + "/" + name
	if address, err := env.get("FELIX_TYPHAADDR"); err == nil && address == "" {
		out.Name = probe.OneLine(at)
	}
	svc, err := c.kube.CoreV1().Services(namespaceOf(at)).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return out, fmt.Errorf("reading Typha's service %s: %w", at, err)
	}
	out.Service = svc
	all, err := c.readService(ctx, probe.KindTypha, svc)
	// Felix looks up the endpoints itself and never uses the Service's address.
	out.Targets = slices.DeleteFunc(all, func(t probe.Target) bool { return t.Name == "service" })
	if err == nil && len(out.Targets) == 0 {
		out.Why, _, _ = c.whyEmpty(ctx, svc)
		err = fmt.Errorf("%w %s", ErrNoTypha, at)
	}
	return out, err
}

// ErrNoTypha reports that Typha's Service exists but has no endpoint.
var ErrNoTypha = errors.New("no endpoint in Typha's service")
