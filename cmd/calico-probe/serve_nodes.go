package main

import (
	"context"
	"sync"
	"time"
)

// nodeNames remembers the nodes for a moment: a burst of alerts asks for each.
type nodeNames struct {
	read func(context.Context) (map[string]string, error)
	mu   sync.Mutex
	have map[string]string
	asOf time.Time
}

// How long the list is believed, and how long that a node is not in it: one that has just
// joined is there a second later.
const (
	namesFor   = 10 * time.Second
	missingFor = time.Second
)

// of is the name of the node that has this name or address; "" = there is none.
func (n *nodeNames) of(ctx context.Context, nameOrAddress string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, ok := n.have[nameOrAddress]
	if age := time.Since(n.asOf); age > namesFor || !ok && age > missingFor {
		have, err := n.read(ctx)
		if err != nil {
			return "", err
		}
		n.have, n.asOf = have, time.Now()
		name = have[nameOrAddress]
	}
	return name, nil
}
