package serverclock

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe/must"
)

func TestClock(t *testing.T) {
	t.Parallel()
	c := &Clock{}
	ahead := func() time.Duration { now, _ := c.Now(); return time.Until(now) }
	c.note("not a date")
	if _, known := c.Now(); known || ahead().Abs() > time.Second {
		t.Errorf("without a date: off by %v", ahead())
	}
	c.note(time.Now().Add(10 * time.Minute).UTC().Format(http.TimeFormat))
	if _, known := c.Now(); !known || ahead() < 9*time.Minute {
		t.Errorf("a server ten minutes ahead: %v", ahead())
	}
	c.note(time.Now().UTC().Format(http.TimeFormat))
	if ahead().Abs() > time.Second {
		t.Errorf("a nearer reading: off by %v", ahead())
	}
}

func TestTransport(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", "Sat, 03 Feb 2001 04:06:00 GMT")
	}))
	defer srv.Close()
	c := &Clock{}
	resp := must.Get((&http.Client{Transport: c.Transport(http.DefaultTransport)}).Get(srv.URL))(t)
	_ = resp.Body.Close()
	if now, known := c.Now(); !known || now.UTC().Year() != 2001 {
		t.Errorf("%v, %v", now, known)
	}
}
