//go:build e2e

package hollow

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/calico-probe/calico-probe/internal/nightfile"
	"github.com/calico-probe/calico-probe/probe"
)

// Kubelets do for all nodes what a kubelet does with a probe's pod.
type Kubelets struct {
	cluster *Cluster
	Port    int
	logs    sync.Map // by namespace/pod

	mu    sync.Mutex
	nodes map[string]Behaviour // by name; others are well and quick
	seen  map[types.UID]bool
}

// Behaviour is how a node does.
type Behaviour struct {
	Night string        // the recorded night that its probe answers from, "" = healthy
	Slow  time.Duration // how much longer its probe takes to start
	Dead  bool          // nothing ever starts there
}

// StartKubelets serves the logs of all nodes, and starts probes on them, until the test ends.
func (c *Cluster) StartKubelets(t testing.TB, nodes map[string]Behaviour) *Kubelets {
	t.Helper()
	k := &Kubelets{cluster: c, nodes: nodes, seen: map[types.UID]bool{}}
	server := httptest.NewTLSServer(http.HandlerFunc(k.log))
	t.Cleanup(server.Close)
	if _, err := fmt.Sscanf(server.Listener.Addr().String(), "127.0.0.1:%d", &k.Port); err != nil {
		t.Fatal(err)
	}
	nights := map[string][]probe.Result{"": night(t, "real-healthy")}
	for _, b := range nodes {
		if b.Night != "" {
			nights[b.Night] = night(t, b.Night)
		}
	}
	source := cache.NewFilteredListWatchFromClient(c.Kube.CoreV1().RESTClient(), "pods", metav1.NamespaceAll,
		func(o *metav1.ListOptions) { o.LabelSelector = "app.kubernetes.io/managed-by=calico-probe" })
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: source, ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: func(what any) {
			if pod, ok := what.(*corev1.Pod); ok && k.first(pod.UID) {
				go k.run(t.Context(), pod.DeepCopy(), nights)
			}
		}}})
	go informer.RunWithContext(t.Context())
	return k
}

func (k *Kubelets) first(uid types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	had := k.seen[uid]
	k.seen[uid] = true
	return !had
}

// run starts a probe's pod, answers its plan, and ends it. It ignores a pod that was deleted meanwhile.
func (k *Kubelets) run(ctx context.Context, pod *corev1.Pod, nights map[string][]probe.Result) {
	b := k.nodes[pod.Spec.NodeName]
	if b.Dead {
		return
	}
	time.Sleep(b.Slow + time.Duration(300+rand.IntN(500))*time.Millisecond)
	log, summary, err := answer(pod.Spec.Containers[0].Args, nights[b.Night])
	if err != nil {
		log, summary = []byte(err.Error()), err.Error()
	}
	k.logs.Store(pod.Namespace+"/"+pod.Name, log)
	now := metav1.Now()
	container := corev1.ContainerStatus{Name: pod.Spec.Containers[0].Name, ImageID: "sha256:hollow"}
	container.State.Terminated = &corev1.ContainerStateTerminated{Reason: "Completed", Message: summary, StartedAt: now,
		FinishedAt: now}
	pod.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, StartTime: &now,
		ContainerStatuses: []corev1.ContainerStatus{container}}
	_, _ = k.cluster.Kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
}

// answer returns the real probe's output for its arguments if its checks see the recorded results.
func answer(args []string, recorded []probe.Result) (log []byte, summary string, err error) {
	var packed []string
	for i, arg := range args {
		if arg == "--plan" {
			packed = append(packed, args[i+1])
		}
	}
	plan, err := probe.UnpackPlan(packed)
	if err != nil {
		return nil, "", err
	}
	var suite []*probe.Check
	for _, id := range plan.Checks {
		suite = append(suite, &probe.Check{ID: id, From: probe.FromNode, Limit: time.Second,
			Run: func(_ context.Context, p *probe.Pass) {
				n := 0
				for _, r := range recorded {
					if r.Check == id {
						p.Report(r)
						n++
					}
				}
				if n == 0 {
					p.Report(probe.Found(probe.Skip, "not recorded"))
				}
			}})
	}
	var out bytes.Buffer
	enc := probe.NewEncoder(&out)
	came := probe.Summary{V: probe.Version, Run: plan.Run, Checks: map[string]probe.Status{}}
	runner := probe.Runner{Suite: suite, Host: &probe.Host{Node: plan.Node}, Version: probe.Release}
	runner.Run(context.Background(), plan, func(ev probe.Event) {
		came.Summarize(ev)
		enc.Encode(ev)
	})
	b, err := json.Marshal(came)
	return out.Bytes(), string(b), err
}

// log serves the log of a container as a kubelet does.
func (k *Kubelets) log(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) != 4 || parts[0] != "containerLogs" {
		http.NotFound(w, r)
		return
	}
	b, ok := k.logs.Load(parts[1] + "/" + parts[2])
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(b.([]byte))
}

// night are the answers of the probe on the node in question in a recorded night.
func night(t testing.TB, name string) []probe.Result {
	t.Helper()
	b, err := os.ReadFile(nightfile.Path(name))
	if err != nil {
		t.Fatal(err)
	}
	var out []probe.Result
	for _, section := range txtar.Parse(b).Files {
		if section.Name != "stream" {
			continue
		}
		d := probe.NewDecoder(bytes.NewReader(section.Data))
		for {
			ev, err := d.Next()
			if err != nil {
				break
			}
			if ev.Result != nil && ev.Method == "pod" && ev.Node == "node-a" && ev.Result.Check != probe.CheckPlaced {
				out = append(out, *ev.Result)
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("night %s has no answer of a probe", name)
	}
	return out
}
