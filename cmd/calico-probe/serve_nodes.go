package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// nodeNames remembers the nodes for a moment: a burst of alerts asks for each.
type nodeNames struct {
	read    func(context.Context) (map[string]string, error)
	reading singleflight.Group
	mu      sync.Mutex
	have    map[string]string
	failed  error // why there is no list as of then
	asOf    time.Time
}

// How long the list is believed; and how long that a node is not in it, since one that
// has just joined is there a second later, or that the API does not answer.
const (
	namesFor   = 10 * time.Second
	missingFor = time.Second
)

// of is the name of the node that has this name or address; "" = there is none.
func (n *nodeNames) of(ctx context.Context, nameOrAddress string) (string, error) {
	nameOrAddress = nodeName(nameOrAddress)
	if name, known, err := n.known(nameOrAddress); known {
		return name, err
	}
	// A request that comes meanwhile waits for the same answer, each as long as it has time.
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
