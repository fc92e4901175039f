package cluster

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// A kubelet writes an event each time it starts. So many of them within so long are a kubelet that keeps exiting.
const (
	startsCounted = 10 * time.Minute
	startsMost    = 3
	// An event stays for an hour, and the API server lists the oldest first: a kubelet that restarts each four seconds
	// has so many.
	startsRead = 1000
)

// starts are the starts of a node's kubelet that its events still tell of.
type starts struct {
	n    int
	last time.Time
}

// readStarts counts the starts of a kubelet since a time.
func (c *Client) readStarts(ctx context.Context, node string, since time.Time) (starts, error) {
	events, err := c.events(ctx, metav1.NamespaceDefault, aboutNode(node)+",reason=Starting,source=kubelet", startsRead)
	if err != nil {
		return starts{}, fmt.Errorf("listing events of the node: %w", err)
	}
	var out starts
	for i := range events {
		at := eventTime(&events[i])
		if !fromKubelet(&events[i], node) || at.Before(since) {
			continue
		}
		out.n++ // each process writes one of its own
		if at.After(out.last) {
			out.last = at
		}
	}
	return out, nil
}

// restarts is the answer about the starts of the kubelet, false where there is nothing to say.
func (s *Snapshot) restarts() (probe.Result, bool) {
	var r probe.Result
	switch {
	case s.starts.Err != nil:
		r = skipDenied(s.starts.Err)
	case s.starts.Value.n < startsMost:
		return r, false
	default:
		age := s.Now.Sub(s.starts.Value.last)
		r = probe.Found(probe.Warn, "the kubelet has started %d times in the last %s, most recently %s ago", s.starts.Value.n,
			probe.Age(startsCounted), probe.Age(age)).With(facts.KubeletStarts, s.starts.Value.n).With(facts.Age, age.Seconds())
	}
	return r.On("kubelet"), true
}
