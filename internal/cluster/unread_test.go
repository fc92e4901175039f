package cluster

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/calico-probe/calico-probe/probe"
)

// TestUnreadShared requires that a failed shared list is reported, and that its targets do not count as read.
func TestUnreadShared(t *testing.T) {
	t.Parallel()
	down := apierrors.NewServiceUnavailable("down")
	for kind, shared := range map[string]probed{
		probe.KindPod:     {pods: Read[[]corev1.Pod]{Err: errors.Join(notReady("node-b"), down)}},
		probe.KindTypha:   {Typha: Read[Typha]{Err: down}},
		probe.KindService: {Services: Read[[]probe.Target]{Err: down}},
	} {
		s := snapshot(node("node-a", "10.0.0.1", "10.0.0.1/24"))
		if err := s.Survey.Unread(); err != nil {
			t.Fatal(err)
		}
		s.Survey.shared = shared
		if err := s.Survey.Unread(); !errors.Is(err, down) {
			t.Errorf("%s: %v", kind, err)
		}
		about := serverOf(t, nil, nil).About(t.Context(), &s.Survey, &s.Survey.Nodes[0])
		if _, gaps := Targets(about); gaps[kind] == "" {
			t.Errorf("%s: its checks pass for asked: %v", kind, gaps)
		}
	}
	s := snapshot(node("node-a", "10.0.0.1", "10.0.0.1/24"))
	s.Survey.shared.pods.Err = notReady("node-b")
	s.Survey.shared.Typha.Err = apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, "calico-typha")
	if err := s.Survey.Unread(); err != nil {
		t.Errorf("a state of the cluster passes for a failed list: %v", err)
	}
}
