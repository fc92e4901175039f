// Package cluster is the reading half of the Kubernetes API: one snapshot of
// what the API knows about a node and its peers, the checks that snapshot
// answers without touching the node, and the pure planner that picks what a
// probe is to ask about. It creates, changes and deletes nothing.
package cluster

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Client reads a cluster.
type Client struct {
	kube  kubernetes.Interface
	calls dynamic.Interface
	clock *serverClock

	calicoIn []string // the namespaces in which Calico's own pods are looked for
}

// NewClient returns a Client for config, which is not changed. Calico's own pods are those
// in calicoNamespace, "" = where Calico is usually installed (Namespaces).
func NewClient(config *rest.Config, calicoNamespace string) (*Client, error) {
	clock := &serverClock{}
	own := rest.CopyConfig(config)
	own.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &dated{rt, clock} })
	own.QPS, own.Burst = 50, 100 // a few dozen small reads, once
	kube, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("reading the client configuration: %w", err)
	}
	calls, err := dynamic.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("reading the client configuration: %w", err)
	}
	return &Client{kube: kube, calls: calls, clock: clock, calicoIn: Namespaces(calicoNamespace)}, nil
}

// serverClock remembers how far the API server's clock is from ours, so that
// ages do not depend on the clock of the laptop that asks.
type serverClock struct {
	mu   sync.Mutex
	skew time.Duration
	seen bool
}

func (c *serverClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.skew)
}

// note takes the Date header of a response, which has whole seconds.
func (c *serverClock) note(date string) {
	t, err := http.ParseTime(date)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	skew := time.Until(t)
	if !c.seen || skew.Abs() < c.skew.Abs() {
		c.skew, c.seen = skew, true
	}
	if c.skew.Abs() < 2*time.Second { // within what whole seconds and a slow line explain
		c.skew = 0
	}
}

type dated struct {
	http.RoundTripper
	clock *serverClock
}

func (d *dated) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.RoundTripper.RoundTrip(req)
	if err == nil {
		d.clock.note(resp.Header.Get("Date"))
	}
	return resp, err
}
