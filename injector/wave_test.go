package injector

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// TestNeverEnds gives up a probe that runs, and of whose end the kubelet says nothing.
func TestNeverEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pod := &corev1.Pod{}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		p := &placement{container: containerName, options: Options{Start: 10 * time.Second}}
		p.altered = func(*corev1.Pod) string { return "" }
		began := time.Now()
		_, err := (&startup{placement: p, pod: pod}).awaitEnd(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), "within 1m30s") || time.Since(began) != 100*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestLogHangs says of a log that does not come that it did not.
func TestLogHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := Answer{log: func(ctx context.Context) (io.ReadCloser, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		err := a.Events(t.Context(), probe.Plan{}, func(probe.Event) error { return nil })
		if err == nil || err.Error() != "its log was not read within 20s" {
			t.Error(err)
		}
	})
}
