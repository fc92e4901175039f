package api

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestStartTypha checks a Typha that is configured but missing.
func TestStartTypha(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, "calico-typha")
	svc := func(port string) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: port, Port: 5473}}}}
	}
	one := []probe.Target{{Kind: probe.KindTypha, Name: "endpoint", Addr: netip.MustParseAddr("10.0.0.9"), Port: 5473}}
	for name, c := range map[string]struct {
		of     string
		err    error
		svc    *corev1.Service
		typha  []probe.Target
		status probe.Status
		saw    string
	}{
		"recorded: no such Service": {"kube-system/calico-typha", gone, nil, nil, probe.Fail,
			"this Service does not exist"},
		"no pods": {"kube-system/calico-typha", cluster.ErrNoTypha, svc(typhaPort), nil, probe.Fail,
			"the Service has no ready endpoint"},
		"near: not read": {"kube-system/calico-typha", apierrors.NewServiceUnavailable("x"), svc(typhaPort), nil,
			probe.Unknown, ""},
		"another port": {"kube-system/calico-typha", nil, svc("typha"), one, probe.Fail,
			"no port named calico-typha"},
		"near: it exists":      {"kube-system/calico-typha", nil, svc(typhaPort), one, probe.OK, "1 endpoint"},
		"near: none is wanted": {"", nil, nil, nil, probe.Skip, "not configured"},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		s.Typha = cluster.Read[cluster.Typha]{Value: cluster.Typha{Name: c.of, Service: c.svc, Targets: c.typha}, Err: c.err}
		t.Run(name, func(t *testing.T) { clustertest.WantFirst(t, ask(t, s, facts.CheckTyphaService), c.status, c.saw) })
	}
}
