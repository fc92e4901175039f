package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe/must"
)

// failingAt returns a kubeconfig for a proxy that fails one call to another server: with error 500, in the middle of
// the response (cut), or without a response (silent). 0 = none. The result counts the calls.
func failingAt(t *testing.T, kubeconfig string, nth int64, by string) (string, *atomic.Int64) {
	t.Helper()
	config := must.Get(clientcmd.BuildConfigFromFlags("", kubeconfig))(t)
	at := must.Get(url.Parse(config.Host))(t)
	proxy, calls := httputil.NewSingleHostReverseProxy(at), new(atomic.Int64)
	proxy.ErrorLog = log.New(io.Discard, "", 0) // clients that give up are what is tested
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch fails := calls.Add(1) == nth; {
		case !fails:
			proxy.ServeHTTP(w, r)
		case by == "500":
			w.WriteHeader(http.StatusInternalServerError)
		case by == "cut":
			whole := httptest.NewRecorder()
			proxy.ServeHTTP(whole, r)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		default:
			proxy.ServeHTTP(httptest.NewRecorder(), r) // reads the body: only then is the closed connection noticed
			<-r.Context().Done()
		}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return kubeconfigTo(t, server.URL), calls
}

// sweptVerb is a verb whose calls fail one after the other, with its API.
type sweptVerb struct {
	args  string
	exits []int // with a failed call; the first is that without
	api   func(t *testing.T) (kubeconfig string, wrong func(exit int, out string) string)
}

func sweptVerbs() []sweptVerb {
	nothing := func(int, string) string { return "" }
	fleet := func(t *testing.T) (string, func(int, string) string) { return fleetAPI(t, ""), nothing }
	fault := []int{report.ExitFault, report.ExitTool, report.ExitIncomplete}
	return []sweptVerb{
		{"run --all-nodes --via api --timeout 2s", fault, fleet},
		{"conditions --at-most 2 --timeout 2s", []int{report.ExitHealthy, report.ExitTool, report.ExitIncomplete},
			func(t *testing.T) (string, func(int, string) string) {
				a := newHealthAPI(t, 3)
				a.breaks(1)
				since := time.Now().Add(-5 * time.Minute).UTC().Format(time.RFC3339)
				a.locked(func() { a.pending[nodeNumber(0)] = "False since " + since })
				return a.kubeconfig, func(int, string) string {
					if got := a.status(nodeNumber(0)); got == "True" {
						return "a node that is silent is called " + got
					}
					return ""
				}
			}},
		{"clean --request-timeout 1s", []int{report.ExitHealthy, report.ExitTool}, sweptLeftovers},
	}
}

// sweptLeftovers returns a pod and a Job for clean to remove.
func sweptLeftovers(t *testing.T) (string, func(int, string) string) {
	meta := func(name string) map[string]any {
		return map[string]any{"namespace": "kube-system", "name": name, "uid": name,
			"creationTimestamp": "2020-01-01T00:00:00Z", "annotations": map[string]any{"calico-probe.io/lifetime": "1s"},
			"labels": map[string]any{"app.kubernetes.io/managed-by": "calico-probe",
				"app.kubernetes.io/name": "calico-probe", "calico-probe.io/run": "7f3a09c1"}}
	}
	kubeconfig := apiWith(t, "Thu, 26 Nov 2026 12:00:00 GMT", []any{map[string]any{"metadata": meta("calico-probe-a-7f3a09c1")}},
		[]any{map[string]any{"metadata": meta("calico-probe-b-7f3a09c1")}})
	return kubeconfig, func(exit int, out string) string {
		n := strings.Count(out, "removed ")
		if exit == report.ExitHealthy && n != 2 || strings.Contains(out, "nothing to remove") {
			return fmt.Sprintf("%d were removed, of two", n)
		}
		return ""
	}
}

// TestEachCallFails fails each call of a verb once in each way. A fault stays a fault, or the run is incomplete. Failed
// actions are never reported as done.
func TestEachCallFails(t *testing.T) {
	t.Parallel()
	for _, v := range sweptVerbs() {
		t.Run(v.args, func(t *testing.T) {
			t.Parallel()
			fails := func(nth int64, by string) (calls int64) {
				api, wrong := v.api(t)
				kubeconfig, count := failingAt(t, api, nth, by)
				exit, out, errs := call(t, append(strings.Fields(v.args), "--kubeconfig", kubeconfig)...)
				if !slices.Contains(v.exits, exit) || nth == 0 && exit != v.exits[0] {
					t.Errorf("call %d by %s: exit %d\n%s%s", nth, by, exit, out, errs)
				}
				if text := wrong(exit, out); text != "" {
					t.Errorf("call %d by %s: exit %d: %s\n%s%s", nth, by, exit, text, out, errs)
				}
				if exit == report.ExitTool && errs == "" {
					t.Errorf("call %d by %s: nothing is said", nth, by)
				}
				return count.Load()
			}
			calls := fails(0, "")
			if calls < 4 {
				t.Fatalf("%d calls: this would test nothing", calls)
			}
			room := make(chan struct{}, 8)
			var all sync.WaitGroup
			for nth := range calls {
				for _, by := range []string{"500", "cut", "silent"} {
					room <- struct{}{}
					all.Go(func() {
						defer func() { <-room }()
						fails(nth+1, by)
					})
				}
			}
			all.Wait()
		})
	}
}
