//go:build e2e

package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkRun measures a run by way of a pod from its start to its end record,
// and beside it, in turns, what the cluster itself needs to start a pause pod
// in the same place. The figures are seconds, their difference and their ratio.
func BenchmarkRun(b *testing.B) {
	var ours, pause time.Duration
	for b.Loop() {
		pause += pausePod(b)
		began := time.Now()
		if d, a := report(b, "run", "--node", "node-a", "--via", "pod"); a.exit != 0 {
			b.Fatalf("exit %d: %v\n%s", a.exit, d.Verdict, a.stderr)
		}
		ours += time.Since(began)
	}
	n := float64(b.N)
	b.ReportMetric(ours.Seconds()/n, "run-s")
	b.ReportMetric(pause.Seconds()/n, "pause-pod-s")
	b.ReportMetric((ours-pause).Seconds()/n, "difference-s")
	b.ReportMetric(ours.Seconds()/pause.Seconds(), "ratio")
}

// BenchmarkWarmCheck measures a check asked again in a session, in the middle of ten
// times, and in the same turn a whole run for that check only and the check itself. The
// ratios are those of the run to the session, and of the session to the check.
func BenchmarkWarmCheck(b *testing.B) {
	for _, check := range []string{"felix-live", "bgp-session"} {
		b.Run(check, func(b *testing.B) {
			var session, run, own time.Duration
			for b.Loop() {
				took := warm(b, check, 10)
				session += took[len(took)/2]
				began := time.Now()
				report(b, "run", "--node", "node-a", "--via", "pod", "--checks", check, "--peers", "0")
				run += time.Since(began)
				own += itself(b, check)
			}
			n := float64(b.N)
			b.ReportMetric(session.Seconds()*1000/n, "session-ms")
			b.ReportMetric(own.Seconds()*1000/n, "check-ms")
			b.ReportMetric(run.Seconds()/session.Seconds(), "run-to-session")
			b.ReportMetric(session.Seconds()/own.Seconds(), "session-to-check")
		})
	}
}

// pausePod is how long a hostNetwork pod takes from create to running.
func pausePod(b *testing.B) time.Duration {
	b.Helper()
	pods := kube(b).CoreV1().Pods("kube-system")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pause-"},
		Spec: corev1.PodSpec{
			NodeName: "node-a", HostNetwork: true, TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{Name: "pause", Image: "registry.k8s.io/pause:3.10"}},
		},
	}
	began := time.Now()
	pod, err := pods.Create(b.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	w, err := pods.Watch(b.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + pod.Name, TimeoutSeconds: new(int64(60)),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	for ev := range w.ResultChan() {
		if p, ok := ev.Object.(*corev1.Pod); ok && p.Status.Phase == corev1.PodRunning {
			took := time.Since(began)
			if err := pods.Delete(b.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
				b.Fatal(err)
			}
			return took
		}
	}
	b.Fatal("the pause pod did not start within a minute")
	return 0
}
