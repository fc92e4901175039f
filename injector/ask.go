package injector

import (
	"context"

	"github.com/calico-probe/calico-probe/probe"
)

// Ask sends a plan or a call, and calls each for every event of the answer. It stops at the end of the answer, or when
// each returns false.
func (s *Session) Ask(ctx context.Context, request probe.Request, each func(probe.Event) bool) error {
	if _, err := s.Send(ctx, request); err != nil {
		return err
	}
	for {
		ev, err := s.Next(ctx)
		if err != nil {
			return err
		}
		if !each(ev) || ev.Type == probe.EventEnd {
			return nil
		}
	}
}
