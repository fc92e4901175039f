package cluster

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A kubelet writes an event each time it starts. If there are this many starts within this time, the kubelet keeps
// exiting.
const (
	StartsCounted = 10 * time.Minute
	StartsMost    = 3
	// The API keeps events for an hour, and lists the oldest first. A kubelet that restarts every four seconds writes
	// almost this many events in an hour.
	startsRead = 1000
)

// starts holds the starts of a node's kubelet that events still show.
type starts struct {
	N    int
	Last time.Time
}

// ReadStarts counts how often the kubelet has started on a node since a given time.
func (c *Client) ReadStarts(ctx context.Context, node string, since time.Time) (starts, error) {
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
		out.N++ // each kubelet process writes a separate event
		if at.After(out.Last) {
			out.Last = at
		}
	}
	return out, nil
}
