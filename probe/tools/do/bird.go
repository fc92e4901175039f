package do

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// The maximum time and length of an answer. On the node, 100,000 routes take seconds and the same number of
// lines, but the user's connection may be slow.
const (
	birdLimit = time.Minute
	maxBIRD   = 200_000
)

// birdQuery is one query to BIRD.
type birdQuery struct {
	tools.BIRDArgs
	limit time.Duration
}

// askBIRD queries the routing daemon. Every session is restricted, so BIRD itself rejects changes.
func askBIRD(ctx context.Context, j *probe.Job, a *tools.BIRDArgs) probe.Result {
	return birdQuery{*a, birdLimit}.run(ctx, j)
}

// errEnough stops an answer that is too long.
var errEnough = errors.New("enough")

func (a birdQuery) run(ctx context.Context, j *probe.Job) probe.Result {
	limited, cancel := context.WithTimeout(ctx, a.limit)
	defer cancel()
	a.Socket = strings.Replace(a.Socket, probe.PlaceRun, j.Host.Place(probe.PlaceRun), 1)
	conn, err := node.DialBIRD(limited, j.Host, a.Socket)
	if errors.Is(err, probe.ErrNotVisible) {
		return unread(err)
	}
	if err != nil {
		return a.silent(ctx, err)
	}
	defer conn.Close()
	many, flush := buffered(j)
	lines := 0
	err = conn.Each(a.Command, func(l bird.Line) error {
		if l.Code == 0 && l.Text == "" { // the answer is complete
			return nil
		}
		if lines == maxBIRD {
			return errEnough
		}
		lines++
		many.Say("%s", l.Text)
		return nil
	})
	_ = flush() // if the session is gone, the tool stops
	var refused *bird.RefusedError
	switch {
	case errors.Is(err, errEnough):
		j.Say("(more than %d lines, the rest is not shown: narrow the query, like 'bird show route for ADDRESS')",
			maxBIRD)
		return probe.Found(probe.OK, "more than %d lines", maxBIRD)
	case errors.As(err, &refused):
		return probe.Found(probe.Fail, "BIRD answers: %s", refused.Line.Text)
	case ctx.Err() != nil:
		return probe.Found(probe.Unknown, "stopped after %s", several(lines, "line"))
	case limited.Err() != nil && lines > 0:
		return probe.Found(probe.Unknown, "BIRD's answer did not end within %v: %s arrived", a.limit,
			several(lines, "line")).With(probe.FactReason, "timeout")
	case err != nil && lines > 0:
		return probe.Found(probe.Unknown, "BIRD's answer breaks off after %s: %v", several(lines, "line"), err).
			With(probe.FactReason, probe.Reason(err))
	case err != nil:
		return a.silent(ctx, err)
	}
	return probe.Found(probe.OK, "%s", several(lines, "line"))
}

// silent explains why a BIRD daemon did not answer.
func (a birdQuery) silent(ctx context.Context, err error) probe.Result {
	reason := probe.Reason(err)
	var r probe.Result
	switch {
	case ctx.Err() != nil:
		return probe.Found(probe.Unknown, "stopped before BIRD answered")
	case reason == "missing":
		r = probe.Found(probe.Skip, "no %s: Calico runs without this BIRD here, or calico-node does not run",
			a.Socket)
	case reason == "refused":
		r = probe.Found(probe.Fail, "%s exists but nothing listens: BIRD is not running", a.Socket)
	case reason == "timeout":
		r = probe.Found(probe.Fail, "%s accepts the connection, but BIRD does not answer within %v", a.Socket, a.limit)
	default:
		r = probe.Found(probe.Unknown, "%s: %v", a.Socket, err)
	}
	return r.With(probe.FactReason, reason)
}
