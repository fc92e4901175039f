package injector

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/calico-probe/calico-probe/probe"
)

// The janitor is a Job that owns the probe's pod but never creates a pod. The client keeps extending the Job's
// deadline. Once the client is gone, the Job controller fails the Job at its deadline. The TTL controller then deletes
// the Job immediately, and the garbage collector deletes its pod. So nothing is left behind after SIGKILL, or after a
// laptop loses its network.
const (
	janitorLife  = 40 * time.Second
	janitorRenew = 15 * time.Second
)

// startJanitor creates the Job and keeps it alive. Without permission to create Jobs, the run continues. If its client
// is then killed, it leaves an exited pod, which 'calico-probe clean' removes.
func (p *placement) startJanitor(ctx context.Context) *metav1.OwnerReference {
	o := p.options
	want := janitorFor(o)
	job, err := p.client.kube.BatchV1().Jobs(o.Namespace).Create(ctx, want, metav1.CreateOptions{})
	if err == nil {
		var renewing context.Context
		p.job = job.Name
		renewing, p.stopRenewing = context.WithCancel(context.WithoutCancel(ctx))
		what := alteredJob(want, job)
		if what == "" {
			p.created = append(p.created, "job "+o.Namespace+"/"+job.Name)
			probe.Detach(func() error { p.renew(renewing, time.Now()); return nil }, func(err error) {
				p.options.Note(fmt.Sprintf("renewing the clean-up job %v: the probe is removed within %v, finished or not", err, janitorLife))
			})
			return &metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID}
		}
		left := p.stopJanitor(ctx)
		if left == nil {
			p.job = ""
		}
		err = errors.Join(alteredBy(what), left)
	}
	// Shown only once the probe runs: if the pod is also rejected, only that matters to the user.
	p.afterwards = fmt.Sprintf("no clean-up job (%s): if this client is killed, run 'calico-probe clean --run %s'",
		probe.OneLine(err.Error()), o.Run)
	return nil
}

// alteredJob describes how the created Job differs from the requested Job. It returns "" if the Job still ends in time
// and does not start a pod.
func alteredJob(want, got *batchv1.Job) string {
	a, g := want.Spec, got.Spec
	return firstDifferent([]field{
		{"spec.parallelism", a.Parallelism, g.Parallelism},
		{"spec.activeDeadlineSeconds", a.ActiveDeadlineSeconds, g.ActiveDeadlineSeconds},
		{"spec.ttlSecondsAfterFinished", a.TTLSecondsAfterFinished, g.TTLSecondsAfterFinished},
		{"spec.suspend", off(a.Suspend), off(g.Suspend)},
		{"spec.managedBy", a.ManagedBy, g.ManagedBy},
		{"metadata.labels", want.Labels, known(want.Labels, got.Labels)},
	})
}

func janitorFor(o Options) *batchv1.Job {
	meta := metaFor(o)
	return &batchv1.Job{
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			Parallelism:             new(int32(0)), // never create a pod
			Completions:             new(int32(1)),
			BackoffLimit:            new(int32(0)),
			ActiveDeadlineSeconds:   new(int64(janitorLife.Seconds())),
			TTLSecondsAfterFinished: new(int32(0)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever,
					Containers:    []corev1.Container{{Name: "never", Image: o.Image}},
				},
			},
		},
	}
}

// renew extends the deadline by the time elapsed on the client, so it works even if clocks are wrong.
func (p *placement) renew(ctx context.Context, began time.Time) {
	tick := time.NewTicker(janitorRenew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			patch := fmt.Sprintf(`{"spec":{"activeDeadlineSeconds":%d}}`, int64((time.Since(began) + janitorLife).Seconds()))
			ctx, cancel := context.WithTimeout(ctx, janitorRenew)
			_, err := p.client.kube.BatchV1().Jobs(p.namespace).Patch(ctx, p.job, types.MergePatchType, []byte(patch),
				metav1.PatchOptions{})
			cancel()
			// After any other error, retry at the next tick. If the API stays unreachable, the deadline passes, as intended.
			if apierrors.IsForbidden(err) {
				p.options.Note(fmt.Sprintf("no right to patch jobs: the probe is removed %v after its start, finished or not", janitorLife))
				return
			}
		}
	}
}

func (p *placement) stopJanitor(ctx context.Context) error {
	if p.job == "" {
		return nil
	}
	p.stopRenewing()
	err := p.client.kube.BatchV1().Jobs(p.namespace).Delete(ctx, p.job,
		metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting job %s/%s (Kubernetes deletes it and its pod within %v): %w", p.namespace, p.job, janitorLife, err)
	}
	return nil
}
