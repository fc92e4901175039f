package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// nodeNames caches the list of nodes briefly, because a burst of alerts causes a lookup for each node.
type nodeNames struct {
	read    func(context.Context) (map[string]string, error)
	reading singleflight.Group
	mu      sync.Mutex
	have    map[string]string
	failed  error // why the last list failed
	asOf    time.Time
}

// The time for which the list is valid. A missing node or a failed list is cached only for missingFor, because a new
// node appears in the list within a second.
const (
	namesFor   = 10 * time.Second
	missingFor = time.Second
)

// of returns the name of the node with this name or address, or "" if there is no such node.
func (n *nodeNames) of(ctx context.Context, nameOrAddress string) (string, error) {
	nameOrAddress = nodeName(nameOrAddress)
	if name, known, err := n.known(nameOrAddress); known {
		return name, err
	}
	// Concurrent requests wait for the same answer, each until its own context ends.
	read := n.reading.DoChan("", func() (any, error) {
		have, err := n.read(context.WithoutCancel(ctx))
		if err != nil {
			have = nil
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.have, n.failed, n.asOf = have, err, time.Now()
		return have, err
	})
	select {
	case <-ctx.Done():
		return "", fmt.Errorf("listing nodes: %w", ctx.Err())
	case got := <-read:
		if got.Err != nil {
			return "", got.Err
		}
		return got.Val.(map[string]string)[nameOrAddress], nil
	}
}

func (n *nodeNames) known(nameOrAddress string) (name string, known bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, ok := n.have[nameOrAddress]
	age := time.Since(n.asOf)
	return name, age <= missingFor || ok && age <= namesFor, n.failed
}
