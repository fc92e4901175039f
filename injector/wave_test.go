package injector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestNeverEnds gives up a running probe if the kubelet does not report its exit.
func TestNeverEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pod := &corev1.Pod{}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		api := &waveAPI{pods: map[string]*corev1.Pod{}}
		p := &placement{client: api.client(t), container: containerName, options: Options{Start: 10 * time.Second}}
		p.altered = func(*corev1.Pod) string { return "" }
		began := time.Now()
		_, err := (&startup{placement: p, pod: pod}).awaitEnd(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), "within 1m30s") || time.Since(began) != 100*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestLogHangs requires an error about a log that does not arrive.
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

// refusing answers every request with one status.
type refusing int

func (status refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(status), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}, nil
}

// TestWaveRefused distinguishes a missing right from a failed list.
func TestWaveRefused(t *testing.T) {
	t.Parallel()
	for status, reason := range map[int]facts.Reason{
		http.StatusForbidden: facts.ReasonRBAC, http.StatusInternalServerError: facts.ReasonAPI,
	} {
		c, err := NewClient(&rest.Config{Host: "http://api", Transport: refusing(status)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.StartWave(t.Context(), Options{Namespace: "kube-system"})
		pe, is := errors.AsType[*PlacementError](err)
		if !is || pe.Reason != reason || (reason == facts.ReasonRBAC) != strings.Contains(pe.Text, "no right") {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// waveAPI is an in-process API server that stores pods and Jobs. Its watches send no events.
type waveAPI struct {
	mu     sync.Mutex
	pods   map[string]*corev1.Pod
	made   func(*corev1.Pod) // sets the fate of each pod
	asked  []string          // METHOD PATH
	broken int               // the status of watches, 0 = they hang
}

func (a *waveAPI) client(t *testing.T) *Client {
	t.Helper()
	c, err := NewClient(&rest.Config{Host: "http://api", Transport: a,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (a *waveAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") != "" && a.broken == 0 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, r.Method+" "+r.URL.Path)
	code, body := http.StatusOK, any(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}})
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch {
	case r.URL.Query().Get("watch") != "":
		code = a.broken
	case strings.Contains(r.URL.Path, "/jobs"), strings.HasSuffix(r.URL.Path, "/events"):
		code = http.StatusForbidden
	case r.Method == http.MethodPost:
		var pod corev1.Pod
		if err := json.NewDecoder(r.Body).Decode(&pod); err != nil {
			return nil, err
		}
		pod.UID = types.UID(pod.Name)
		body, a.pods[pod.Name] = pod, &pod
		if a.made != nil {
			later := pod.DeepCopy()
			a.made(later)
			a.pods[pod.Name] = later
		}
	case name == "pods":
		body = corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	case a.pods[name] == nil:
		code = http.StatusNotFound
		body = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Reason: metav1.StatusReasonNotFound}
	case r.Method == http.MethodDelete:
		delete(a.pods, name)
	default:
		body = a.pods[name]
	}
	b, err := json.Marshal(body)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader(b))}, err
}

// ended changes a pod to that of a probe that has answered.
func ended(pod *corev1.Pod) {
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName, ImageID: "sha256:1",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "well"}}}}
}

// TestWatchBroken requires answers although watches fail, and no blame for a healthy component.
func TestWatchBroken(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"hangs": 0, "forbidden": http.StatusForbidden, "gone": http.StatusGone} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &waveAPI{pods: map[string]*corev1.Pod{}, made: ended, broken: status}
			o := Options{Node: "node-1", Namespace: "x", Run: "0a1b2c3d", Image: "probe", Start: 200 * time.Millisecond,
				Note: func(string) {}}
			w, err := api.client(t).StartWave(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			var got Answer
			err = w.Ask(t.Context(), o, probe.Plan{}, func(a Answer) error { got = a; return nil })
			if err != nil || got.Summary != "well" || got.ImageID != "sha256:1" {
				t.Errorf("%v, %+v", err, got)
			}
			if err := w.Close(); err != nil || len(api.pods) > 0 {
				t.Errorf("%v, left: %v", err, api.pods)
			}
		})
	}
}

// TestWaveStopped requires that nothing is created, and no removal requested, after a run is stopped.
func TestWaveStopped(t *testing.T) {
	t.Parallel()
	api := &waveAPI{pods: map[string]*corev1.Pod{}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := &Wave{client: api.client(t), news: map[string]chan podNews{}}
	err := w.Ask(ctx, Options{Node: "node-1", Run: "0a1b2c3d"}, probe.Plan{}, nil)
	if !errors.Is(err, context.Canceled) || len(api.asked) > 0 {
		t.Errorf("%v, asked: %q", err, api.asked)
	}
}

// TestAnotherPod requires that events of another pod with the same name are ignored.
func TestAnotherPod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &waveAPI{pods: map[string]*corev1.Pod{}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "ours"}}
		other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "another"}}
		ended(other)
		news := make(chan podNews, 1)
		news <- podNews{pod: other}
		p := &placement{client: api.client(t), container: containerName, options: Options{Start: 10 * time.Second}}
		p.altered = func(*corev1.Pod) string { return "" }
		if end, err := (&startup{placement: p, pod: pod}).awaitEnd(t.Context(), news); end != nil || err == nil {
			t.Errorf("%v, %v", end, err)
		}
	})
}
