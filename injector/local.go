package injector

import (
	"context"
)

// Local is the access method for the machine this program runs on. Nothing is created, and the protocol is
// the same; serve answers it: probe.Runner.Serve.
func Local(serve connectFunc) Open {
	return func(ctx context.Context, _ Options) (*Session, error) {
		s := &Session{
			created: []string{"this is the node itself, nothing was created"},
			remove:  func(bool, bool) error { return nil },
		}
		s.start(ctx, serve, nil)
		return s, nil
	}
}
