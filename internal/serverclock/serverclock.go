// Package serverclock keeps the API server's time. The ages of API objects then do not depend on the client's clock.
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

// Clock reports the API server's time, based on the Date headers of the server's responses. The zero value is ready to
// use.
type Clock struct {
	mu   sync.Mutex
	skew time.Duration // difference between the server's clock and ours, from the closest reading
	seen bool
}

// noise is the difference that two equal clocks can show because of whole seconds and a slow connection.
const noise = 2 * time.Second

// Now returns the server's time. If no response had a Date header, it returns the local time and false.
func (c *Clock) Now() (now time.Time, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.skew), c.seen
}

// Transport returns a transport that reads the clock from next's responses.
func (c *Clock) Transport(next http.RoundTripper) http.RoundTripper { return &transport{next, c} }

// note records the Date header of a response, which has whole seconds.
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
