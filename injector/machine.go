package injector

import (
	"context"
	"fmt"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// sayLimit is how long a probe that was brought may take to say on which machine it is. It
// may say many other things meanwhile.
const sayLimit = 20 * time.Second

// judge says why a machine is not taken for the node, nil where it is: of what the probe there
// said of it, "" = nothing, or of why it has not answered.
type judge func(said string, err error) *PlacementError

// onMachine asks the probe of a session that nobody has spoken with on which machine it is,
// and gives the session back where judge is content with what it says; else the session
// ends, and nothing of what it said was passed on.
func (s *Session) onMachine(ctx context.Context, o Options, judge judge) (*Session, error) {
	said, err := s.machine(ctx, o)
	stopped := context.Cause(ctx)
	var refused error
	if pe := judge(said, err); pe != nil {
		refused = pe
	}
	if stopped != nil {
		refused = fmt.Errorf("stopped while bringing the probe: %w", stopped)
	}
	if refused == nil {
		return s, nil
	}
	_ = s.Close() // of a probe that was carried nothing is left to remove
	return nil, refused
}

// machine has the probe say on which machine it is: a plan without checks only asks who is
// there.
func (s *Session) machine(ctx context.Context, o Options) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, sayLimit)
	defer cancel()
	ask := probe.Request{Type: probe.RequestPlan, Plan: &probe.Plan{Run: o.Run, Node: o.Node}}
	if _, err := s.Send(ctx, ask); err != nil {
		return "", err
	}
	said := ""
	for {
		ev, err := s.Next(ctx)
		switch {
		case err != nil:
			return "", err
		case ev.Start != nil:
			said = ev.Start.Machine
		case ev.Type == probe.EventEnd:
			return said, nil
		}
	}
}
