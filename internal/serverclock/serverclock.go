// Package serverclock keeps the API server's time, so that ages of API objects do not depend on the client's clock.
//
//	var clock serverclock.Clock
//	config.Wrap(clock.Transport)
//	...
//	now, known := clock.Now()
package serverclock

import (
	"net/http"
	"sync"
	"time"
)

// Clock tells the API server's time by the Date of its answers. The zero value is ready.
type Clock struct {
	mu   sync.Mutex
	skew time.Duration // of the server's clock to ours, by the nearest reading
	seen bool
}

// noise is what whole seconds and a slow connection make of two clocks that agree.
const noise = 2 * time.Second

// Now returns the server's time. If no response had a Date header, it returns the local time and false.
func (c *Clock) Now() (now time.Time, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.skew), c.seen
}

// Transport reads the clock from the answers of next.
func (c *Clock) Transport(next http.RoundTripper) http.RoundTripper { return &transport{next, c} }

// note takes the Date of an answer, which has whole seconds.
func (c *Clock) note(date string) {
	t, err := http.ParseTime(date)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	skew := time.Until(t)
	if !c.seen || skew.Abs() < c.skew.Abs() {
		c.skew, c.seen = skew, true
	}
	if c.skew.Abs() < noise {
		c.skew = 0
	}
}

type transport struct {
	next  http.RoundTripper
	clock *Clock
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err == nil {
		t.clock.note(resp.Header.Get("Date"))
	}
	return resp, err
}
