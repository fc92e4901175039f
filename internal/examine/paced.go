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

// pacer holds back the requests of a run over many nodes where the API server says that there are too many (429, from
// priority and fairness) or cannot be reached, as while another one takes its place. All wait then, each time twice as
// long, and go on one after the other: what was refused at once must not come back at once.
type pacer struct {
	mu    sync.Mutex
	until time.Time     // when requests are sent again
	step  time.Duration // of the last wait
	why   error         // for which all wait, where nobody was reached
}

const (
	firstStep   = time.Second
	longestStep = 8 * time.Second // the Job that owns the probes is kept alive every 15s
	// unreached is for how long a request is tried again that reached nobody.
	unreached = 30 * time.Second
)

// transport holds back what is sent by way of next. What was refused is sent again by client-go, ten times at most.
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
			seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // 0 = it does not say
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

// dialFailed tells whether a request certainly reached nobody.
func dialFailed(err error) bool {
	failed, is := errors.AsType[*net.OpError](err)
	return is && failed.Op == "dial"
}

// wait waits until requests are sent again, and a while longer by chance.
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
				return cmp.Or(why, context.Cause(ctx)) // "refused" says more than "not in time"
			}
			return context.Cause(ctx)
		}
	}
}

// hold makes requests wait from now on. Of many that were sent together the first that fails counts.
func (p *pacer) hold(least time.Duration, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Before(p.until) {
		return
	}
	p.why = why
	p.step = min(max(2*p.step, firstStep, least), longestStep)
	p.until = now.Add(p.step)
}

// goOn forgets what was, once an answer comes that is none of before the last wait.
func (p *pacer) goOn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !time.Now().Before(p.until) {
		p.step, p.why = 0, nil
	}
}
