package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/calico-probe/calico-probe/probe"
)

// slowFactor is the ratio of the second time limit to the first. An API server that lacks CPU answers a list within
// half a minute. A dead API server does not accept connections.
const slowFactor = 3

// patiently reads within a time limit. If the API server accepts a connection but does not answer in time, patiently
// calls Slow and retries once with a longer limit.
func patiently[T any](ctx context.Context, c *Client, read func(context.Context) (T, error)) (T, error) {
	began, limit := time.Now(), cmp.Or(c.limit, readLimit)
	var reached atomic.Bool
	watched := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{ConnectDone: func(_, _ string, err error) {
		if err == nil {
			reached.Store(true)
		}
	}, GotConn: func(httptrace.GotConnInfo) { reached.Store(true) }})
	try := func(limit time.Duration) (T, error) {
		ctx, cancel := context.WithTimeout(watched, limit)
		defer cancel()
		return read(ctx)
	}
	got, err := try(limit)
	if !late(err) || !reached.Load() {
		return got, err
	}
	more := slowFactor * limit
	if end, bounded := ctx.Deadline(); bounded {
		more = min(more, time.Until(end))
	}
	if more >= limit { // a shorter try would also fail
		if c.Slow != nil {
			c.Slow(time.Since(began), more)
		}
		if got, err = try(more); !late(err) {
			return got, err
		}
	}
	return got, &slowError{waited: time.Since(began), err: err}
}

// late reports whether an error means that the answer did not arrive in time.
func late(err error) bool {
	return err != nil && (errors.Is(err, context.DeadlineExceeded) || probe.Reason(err) == "timeout" ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err))
}

// slowError reports an API server that accepts connections but does not answer in time.
type slowError struct {
	waited  time.Duration
	err     error
	oneNode bool // the run is about one node, which can be diagnosed without the API
}

func (e *slowError) Error() string {
	text := fmt.Sprintf("the API server accepts connections but gave no answer in time (%s): it is overloaded, or its etcd "+
		"is slow. Try again", probe.Age(e.waited))
	if e.oneNode {
		text += ", or run calico-probe on the node itself with --via local"
	}
	return text
}

func (e *slowError) Unwrap() error { return e.err }

// Sentence marks the error as text for users.
func (e *slowError) Sentence() {}
