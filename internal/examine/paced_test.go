package examine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// tripper is a RoundTripper that is a function.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// trouble answers so for a while and then well, and notes when each request came.
func trouble(lasts time.Duration, answer func() (*http.Response, error)) (next tripper, came *[]time.Duration) {
	began, mu, all := time.Now(), sync.Mutex{}, []time.Duration{}
	return func(r *http.Request) (*http.Response, error) {
		after := time.Since(began)
		mu.Lock()
		all = append(all, after)
		mu.Unlock()
		time.Sleep(10 * time.Millisecond)
		if after < lasts {
			return answer()
		}
		body, _ := io.ReadAll(r.Body) // of this process's memory
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body))}, nil
	}, &all
}

// TestPaced requires that requests that were refused together wait longer each time, and do not return together.
func TestPaced(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func() (*http.Response, error){
		"too many requests": func() (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}},
				Body: http.NoBody}, nil
		},
		"unreachable": func() (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			const requests, lasts = 96, 10 * time.Second
			next, came := trouble(lasts, answer)
			send := (&pacer{}).transport(next)
			var all sync.WaitGroup
			var well atomic.Int64
			for range requests {
				all.Go(func() {
					for { // as client-go does
						req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://api/", strings.NewReader("a pod"))
						resp, err := send.RoundTrip(req)
						switch {
						case err != nil:
							t.Errorf("%s: %v", name, err)
							return
						case resp.StatusCode == http.StatusOK:
							if body, _ := io.ReadAll(resp.Body); string(body) == "a pod" {
								well.Add(1)
							}
							return
						}
						time.Sleep(time.Second)
					}
				})
			}
			all.Wait()
			if well.Load() != requests {
				t.Errorf("%s: %d answers", name, well.Load())
			}
			inVain, most := 0, map[time.Duration]int{}
			for _, at := range *came {
				if at < lasts {
					inVain++
				} else {
					most[at.Truncate(100*time.Millisecond)]++
				}
			}
			// a few of each wait get through before the first of them is refused
			if inVain > 4*requests { // ten times each by Retry-After alone
				t.Errorf("%s: %d requests in vain", name, inVain)
			}
			for at, n := range most {
				if n > requests/4 {
					t.Errorf("%s: %d requests within 0.1s, at %v", name, n, at)
				}
			}
		})
	}
}

// TestPacedEnds requires that a waiting request ends with its context, and that a request that may have been answered
// is not repeated.
func TestPacedEnds(t *testing.T) {
	t.Parallel()
	pace, sent := &pacer{}, 0
	send := pace.transport(tripper(func(*http.Request) (*http.Response, error) {
		sent++
		return nil, &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}
	}))
	req, err := http.NewRequest(http.MethodPost, "http://api/", strings.NewReader("a pod"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := send.RoundTrip(req); err == nil || sent != 1 {
		t.Errorf("%v, sent %d times", err, sent)
	}
	pace.hold(0, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := send.RoundTrip(req.WithContext(ctx)); !errors.Is(err, context.Canceled) || sent != 1 {
		t.Errorf("%v, sent %d times", err, sent)
	}
}

// TestBusy creates a pod by the real client of an API server that has too many requests for a while.
func TestBusy(t *testing.T) {
	t.Parallel()
	asked := atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if asked.Add(1) <= 2 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = io.WriteString(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`) // seen by the client
	}))
	t.Cleanup(server.Close)
	to := func() (*rest.Config, error) { return &rest.Config{Host: server.URL}, nil }
	client := NewClient(Config{Rest: to}, io.Discard)
	config, err := client.Busy().Rest()
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	pod, err := kube.CoreV1().Pods("x").Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{})
	if err != nil || pod.Name != "a" || asked.Load() != 3 {
		t.Errorf("%v, %+v, asked %d times", err, pod, asked.Load())
	}
}

// TestPacedSaysWhatFailed requires the reason for the failed connection, not the timeout.
func TestPacedSaysWhatFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		next, _ := trouble(time.Hour, func() (*http.Response, error) { return nil, &net.OpError{Op: "dial", Err: refused} })
		send := (&pacer{}).transport(next)
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		both := make(chan error)
		for range 2 { // the second waits since the first has failed, and is never sent
			go func() {
				_, err := send.RoundTrip(req.Clone(ctx))
				both <- err
			}()
			time.Sleep(time.Second / 2)
		}
		for range 2 {
			if err := <-both; !errors.Is(err, refused) {
				t.Error(err)
			}
		}
	})
}
