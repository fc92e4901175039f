package injector

import (
	"context"

	"github.com/calico-probe/calico-probe/probe"
)

// Ask sends a plan or a call and gives every event of the answer, up to its end, to each,
// which returns false to stop.
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
