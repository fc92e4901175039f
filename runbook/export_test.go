package runbook

import (
	"context"
	"fmt"
	"time"
)

// Taken is the branch each of these takes, "" = none.
func Taken(branches []Branch, nights []Asked) ([]string, error) {
	out := make([]string, len(nights))
	for _, b := range branches {
		var c *compiled
		if b.When != "" {
			var err error
			if c, err = compile(b.When); err != nil {
				return nil, err
			}
		}
		for i, night := range nights {
			if out[i] != "" {
				continue
			}
			s := sight{node: night.Node, last: seen(night)}
			if c != nil {
				v, _, err := c.program.ContextEval(context.Background(), s.variables())
				if err != nil {
					return nil, fmt.Errorf("%s: %w", b.Name, err)
				}
				if v.Value() != true {
					continue
				}
			}
			out[i] = b.Name
		}
	}
	return out, nil
}

func init() { leastEvery = time.Millisecond } // of a world without nodes
