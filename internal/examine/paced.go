package examine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// pacer slows down a run over many nodes when the API server reports too many requests (429, from priority and
// fairness) or is unreachable, as during a failover. All requests then wait, twice as long each time. They continue one
// by one, because requests that were refused together must not be repeated together.
type pacer struct {
	mu    sync.Mutex
	until time.Time     // when requests are sent again
	step  time.Duration // duration of the last wait
	why   error         // why all requests wait, if no server was reached
}

const (
	firstStep = time.Second
	maxStep   = 8 * time.Second // the Job that owns the probes is kept alive every 15s
	// unreached is the time for which an unsent request is retried.
	unreached = 30 * time.Second
)

// transport paces the requests to next. client-go resends a refused request at most ten times.
func (p *pacer) transport(next http.RoundTripper) http.RoundTripper { return &paced{p, next} }

type paced struct {
	*pacer
	next http.RoundTripper
}

func (t *paced) RoundTrip(req *http.Request) (*http.Response, error) {
	for began := time.Now(); ; {
		if err := t.wait(req.Context()); err != nil {
			return nil, err
		}
		resp, err := t.next.RoundTrip(req)
		switch {
		case err == nil && resp.StatusCode == http.StatusTooManyRequests:
			seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // 0 = no such header
			t.hold(time.Duration(seconds)*time.Second, nil)
			return resp, nil
		case err == nil:
			t.goOn()
			return resp, nil
		case !dialFailed(err) || time.Since(began) > unreached:
			return nil, err
		}
		t.hold(0, err)
		if req.Body == nil || req.Body == http.NoBody {
			continue
		}
		if req.GetBody == nil {
			return nil, err
		}
		body, again := req.GetBody()
		if again != nil {
			return nil, fmt.Errorf("sending it again: %w", errors.Join(again, err))
		}
		req = req.Clone(req.Context())
		req.Body = body
	}
}

// dialFailed reports whether a request certainly never reached a server.
func dialFailed(err error) bool {
	failed, is := errors.AsType[*net.OpError](err)
	return is && failed.Op == "dial"
}

// wait blocks until requests are sent again, plus a random delay.
func (p *pacer) wait(ctx context.Context) error {
	for {
		p.mu.Lock()
		left, step, why := time.Until(p.until), p.step, p.why
		p.mu.Unlock()
		if left <= 0 {
			return nil
		}
		late := time.NewTimer(left + rand.N(step))
		select {
		case <-late.C:
		case <-ctx.Done():
			late.Stop()
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return cmp.Or(why, context.Cause(ctx)) // "refused" is more useful than "timed out"
			}
			return context.Cause(ctx)
		}
	}
}

// After hold, requests wait. If several requests that were sent together fail, only the first failure counts.
func (p *pacer) hold(least time.Duration, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Before(p.until) {
		return
	}
	p.why = why
	p.step = min(max(2*p.step, firstStep, least), maxStep)
	p.until = now.Add(p.step)
}

// goOn resets the pacer once there is an answer to a request that was sent after the last wait.
func (p *pacer) goOn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !time.Now().Before(p.until) {
		p.step, p.why = 0, nil
	}
}
