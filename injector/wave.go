package injector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// A Wave puts probes on many nodes, each in its own pod with its plan in the arguments. A probe writes its answer into
// its log and a summary into its termination message, and exits. A kept probe does not exit: it keeps running and
// answers a session. One Job owns all pods, so that they are deleted with the Job. One watch follows all pods.
type Wave struct {
	client  *Client
	common  Options
	janitor *placement
	owner   *metav1.OwnerReference
	stop    context.CancelFunc

	mu   sync.Mutex
	news map[string]chan podNews // by the name of the pod
	left map[string]error        // pods that could not be removed, by name
}

// podNews is the latest state of a pod.
type podNews struct {
	pod  *corev1.Pod
	gone bool
}

// StartWave creates the Job that owns the pods of a wave, and starts to watch them. common has the options that all
// pods share. Its Node names the wave. If the API refuses, the error is a *PlacementError.
func (c *Client) StartWave(ctx context.Context, common Options) (*Wave, error) {
	ours := labelRun + "=" + common.Run
	_, err := c.kube.CoreV1().Pods(common.Namespace).List(ctx, metav1.ListOptions{LabelSelector: ours, Limit: 1})
	switch { // a watch would repeat this forever
	case err != nil && !apierrors.IsForbidden(err):
		return nil, unread("the pods of namespace "+common.Namespace, err)
	case err != nil:
		return nil, &PlacementError{Reason: facts.ReasonRBAC, Err: err,
			Text: fmt.Sprintf("no right to list the pods of namespace %s: %s", common.Namespace, probe.OneLine(err.Error()))}
	}
	w := &Wave{client: c, common: common, news: map[string]chan podNews{}, left: map[string]error{},
		janitor: &placement{client: c, options: common, namespace: common.Namespace}}
	w.owner = w.janitor.startJanitor(ctx)
	if w.owner == nil {
		common.Note(w.janitor.afterwards)
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	w.stop = stop
	w.watch(watching, ours)
	return w, nil
}

// watch starts to forward the state of every pod of the wave.
func (w *Wave) watch(ctx context.Context, selector string) {
	source := cache.NewFilteredListWatchFromClient(w.client.kube.CoreV1().RESTClient(), "pods", w.common.Namespace,
		func(o *metav1.ListOptions) { o.LabelSelector = selector })
	tell := func(what any, gone bool) {
		if pod, ok := what.(*corev1.Pod); ok {
			w.tell(podNews{pod, gone})
		}
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source, ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(pod any) { tell(pod, false) },
			UpdateFunc: func(_, pod any) { tell(pod, false) },
			DeleteFunc: func(pod any) {
				if last, ok := pod.(cache.DeletedFinalStateUnknown); ok {
					pod = last.Obj
				}
				tell(pod, true)
			},
		},
	})
	probe.Detach(func() error { informer.RunWithContext(ctx); return nil }, func(err error) {
		w.common.Note(fmt.Sprintf("watching the probes' pods %v: probes that have not answered yet time out", err))
	})
}

// tell forwards a pod's state, and replaces an earlier state that has not been read.
func (w *Wave) tell(news podNews) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ch := w.news[news.pod.Name]
	if ch == nil {
		return
	}
	select {
	case <-ch:
	default:
	}
	ch <- news
}

// Answer is the answer from a wave's probe. It is valid while the probe's pod exists.
type Answer struct {
	Summary string        // the termination message
	Took    time.Duration // until its exit
	ImageID string        // the probe's image
	Pod     string        // NAMESPACE/NAME
	log     func(context.Context) (io.ReadCloser, error)
}

// errLogCut is the error if a log ends before the probe's answer ends.
var errLogCut = errors.New("its log ends before its answer")

// Events reads the whole answer to a plan from the probe's log, and forwards the trusted events.
func (a Answer) Events(ctx context.Context, plan probe.Plan, each func(probe.Event) error) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, waveLogLimit, fmt.Errorf("its log was not read within %v", waveLogLimit))
	defer cancel()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	r, err := a.log(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	d := probe.NewLiveDecoder(io.LimitReader(r, 2*probe.MaxHeld))
	intake := probe.NewIntake(probe.Request{Type: probe.RequestPlan, Plan: &plan})
	for {
		ev, err := d.Next()
		if errors.Is(err, io.EOF) {
			return errLogCut
		}
		if err != nil {
			return err
		}
		let, err := intake.Take(ev, false)
		if err != nil {
			return err
		}
		for _, ev := range let {
			if err := each(ev); err != nil {
				return err
			}
		}
		if ev.Type == probe.EventEnd {
			return nil
		}
	}
}

// Ask puts a probe on a node, passes its answer to read once the probe has exited, and removes the pod. It returns
// read's error, or a *PlacementError if the probe did not exit normally.
func (w *Wave) Ask(ctx context.Context, o Options, plan probe.Plan, read func(Answer) error) error {
	if err := context.Cause(ctx); err != nil {
		return err // nothing was created, so there is nothing to remove
	}
	requested, err := w.podFor(o, plan)
	if err != nil {
		return err
	}
	news := make(chan podNews, 1)
	w.mu.Lock()
	w.news[requested.Name] = news
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.news, requested.Name)
	}()
	p, pod, err := w.create(ctx, o, requested)
	if err != nil {
		return err
	}
	s := &startup{placement: p, pod: pod}
	end, err := s.awaitEnd(ctx, news)
	if err == nil {
		answer := Answer{Summary: end.Message, Took: time.Since(p.began), ImageID: p.image,
			Pod: o.Namespace + "/" + pod.Name, log: p.openLog}
		err = probe.Recovered(func() error { return read(answer) }) // remove the pod in any case
	}
	if left := p.removed(err == nil, end != nil); left != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.left[requested.Name] = left
	}
	return err
}

// Keep puts a probe on a node. The probe stays until its session is closed. If it does not start, the error is a
// *PlacementError.
func (w *Wave) Keep(ctx context.Context, o Options) (*Session, error) {
	o.Keep = true
	p, pod, err := w.create(ctx, o, podFor(o, w.owner))
	if err != nil {
		return nil, err
	}
	if err := p.awaitRunning(ctx, pod); err != nil {
		return nil, p.abandon(err)
	}
	return p.open(context.WithoutCancel(ctx)), nil // only Close ends it
}

// create creates a pod of the wave.
func (w *Wave) create(ctx context.Context, o Options, requested *corev1.Pod) (*placement, *corev1.Pod, error) {
	p := &placement{client: w.client, options: o, namespace: o.Namespace, pod: requested.Name, container: containerName,
		began: time.Now()}
	p.altered = func(pod *corev1.Pod) string { return alteredPod(requested, pod) }
	pod, err := w.client.kube.CoreV1().Pods(o.Namespace).Create(ctx, requested, metav1.CreateOptions{})
	if err != nil {
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err) ||
			apierrors.IsAlreadyExists(err) {
			p.pod = "" // this request did not create it
		}
		return nil, nil, errors.Join(refusedCreate("a pod in namespace "+o.Namespace, err), p.removed(false, false))
	}
	return p, pod, nil
}

// podFor returns the pod of one node's probe.
func (w *Wave) podFor(o Options, plan probe.Plan) (*corev1.Pod, error) {
	packed, err := plan.Pack()
	if err != nil {
		return nil, err
	}
	pod := podFor(o, w.owner)
	c := &pod.Spec.Containers[0]
	c.Stdin, c.StdinOnce = false, false
	c.Args = []string{"run", "--root", "/host", "--node", o.Node, "--summary", corev1.TerminationMessagePathDefault}
	for _, piece := range packed {
		c.Args = append(c.Args, "--plan", piece)
	}
	return pod, nil
}

// Time limits that prevent one node with a hanging kubelet from delaying a whole wave.
const (
	waveAnswerLimit = 90 * time.Second // for a running probe to exit
	waveLogLimit    = 20 * time.Second // to read its log
)

// awaitEnd waits until the probe has exited. The error reports why the probe did not exit, or failed.
func (s *startup) awaitEnd(ctx context.Context, news <-chan podNews) (*corev1.ContainerStateTerminated, error) {
	late, over, ran := time.NewTimer(s.options.Start), false, false
	defer late.Stop()
	for {
		end, running, err := s.ended()
		if end != nil || err != nil {
			return end, err
		}
		switch {
		case !over:
		case !running:
			s.events, _ = s.readEvents(ctx, s.pod)
			return nil, s.gaveUp(ctx, context.DeadlineExceeded)
		case ran:
			return nil, refuse(facts.ReasonSilent, "the probe runs, but the kubelet has not reported its exit within %v",
				waveAnswerLimit)
		default:
			over, ran = false, true
			late.Reset(waveAnswerLimit)
		}
		select {
		case n := <-news:
			if n.pod.UID != s.pod.UID {
				continue // an earlier pod of that name
			}
			if s.pod = n.pod; n.gone {
				return nil, refuse(facts.ReasonKubelet, "pod %s/%s was deleted before the probe exited", s.namespace, s.pod.Name)
			}
		case <-late.C: // the watch may have failed, and the kubelet is not to blame for that
			if err := s.readPod(ctx); err != nil {
				return nil, err
			}
			over = true
		case <-ctx.Done():
			return nil, fmt.Errorf("stopped while waiting for the probe, %v after its pod was created: %w",
				time.Since(s.began).Round(100*time.Millisecond), context.Cause(ctx))
		}
	}
}

// ended returns the exit state of a pod's probe, or nil if it has not exited, and whether the probe is running. An
// error means that the probe failed or will not exit.
func (s *startup) ended() (end *corev1.ContainerStateTerminated, running bool, err error) {
	if what := s.altered(s.pod); what != "" {
		return nil, false, alteredBy(what).And("so its answer is not read")
	}
	if end, image := endOf(s.pod, s.container); end != nil {
		s.image = probe.OneLine(image)
		if end.ExitCode != 0 {
			return end, false, refuse(facts.ReasonRejected, "the probe ended: %s, exit code %d: %s", end.Reason, end.ExitCode,
				probe.OneLine(end.Message))
		}
		return end, false, nil
	}
	state := containerStateOf(s.pod, s.container, s.events)
	if state.refusal != nil {
		return nil, false, state.refusal
	}
	return nil, state.running, nil
}

// endOf returns a container's exit state, or nil if it has not exited, and the container's image.
func endOf(pod *corev1.Pod, container string) (end *corev1.ContainerStateTerminated, image string) {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == container {
			return c.State.Terminated, c.ImageID
		}
	}
	return nil, ""
}

// Close removes the rest of the wave. Deleting the Job also deletes the pods that it owns.
func (w *Wave) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanLimit)
	defer cancel()
	w.stop()
	err := w.janitor.stopJanitor(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	var failed error
	for name := range w.left {
		again := w.client.kube.CoreV1().Pods(w.common.Namespace).Delete(ctx, name,
			metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		if again == nil || apierrors.IsNotFound(again) {
			delete(w.left, name)
		} else {
			failed = again
		}
	}
	if n := len(w.left); n > 0 && (w.owner == nil || err != nil) {
		err = errors.Join(err, fmt.Errorf("%d probe pods could not be removed: %w", n, failed))
	}
	if err != nil {
		return fmt.Errorf("%w; remove the rest with 'calico-probe clean --run %s'", err, w.common.Run)
	}
	return nil
}
