package runbook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// The limits for what a check's command may return. They are the same as for any result.
const (
	maxSaw   = 400
	maxLines = 16
)

func (w *walk) check(ctx context.Context, e *Entry, s *Step) error {
	c := s.Check
	r, at, err := effect(w, e.Step, s.Name, func() (Result, error) {
		if c.That != "" {
			return w.checkThat(ctx, c)
		}
		return w.checkCommand(ctx, c)
	})
	if err != nil {
		return err
	}
	e.At, e.Text, e.Result = at, c.Asks, &r
	w.own = append(slices.DeleteFunc(w.own, func(r Result) bool { return r.Check == c.ID }), r)
	if s.Name != "" {
		w.steps[s.Name] = seen().with(w.node, []Result{r})
	}
	w.answered = w.answered || r.Status != string(probe.Unknown)
	return nil
}

func (w *walk) checkThat(ctx context.Context, c *Check) (Result, error) {
	r := w.result(c, probe.Unknown, "")
	holds, err := w.sight().holds(ctx, c.That)
	switch {
	case ctx.Err() != nil:
		return r, context.Cause(ctx)
	case err != nil:
		r.Saw = probe.Plain(err.Error())
		return r, nil
	case holds:
		r.Status = string(probe.OK)
	default:
		r.Status = string(probe.Fail)
	}
	r.Saw = w.sight().say(ctx, c.Saw)
	return r, nil
}

func (w *walk) result(c *Check, s probe.Status, saw string) Result {
	return Result{
		Node: w.node, Check: c.ID, Method: "runbook", Status: string(s), Saw: saw, Facts: map[string]any{}, Lines: []string{},
	}
}

// checkCommand runs a program with the protocol of node-problem-detector's custom plugins: exit code 0 means ok, 1 a
// fault, and any other code unknown. The first line of output is the observation.
func (w *walk) checkCommand(ctx context.Context, c *Check) (Result, error) {
	words, err := w.words(ctx, c.Command)
	switch {
	case ctx.Err() != nil:
		return Result{}, context.Cause(ctx)
	case err != nil:
		return w.result(c, probe.Unknown, plainly(err.Error())), nil
	case !w.Commands:
		return w.result(c, probe.Unknown, "not run: commands are not allowed here"), nil
	}
	ran, err := w.start(ctx, cmp.Or(time.Duration(c.Limit), checkLimit), words, nil)
	if err != nil {
		return Result{}, err
	}
	var lines []string
	for line := range strings.Lines(cmp.Or(strings.TrimSpace(ran.out), strings.TrimSpace(ran.all))) {
		lines = append(lines, probe.Cut(plainly(line), maxSaw))
	}
	if len(lines) == 0 {
		lines = []string{fmt.Sprintf("exit code %d, no output", ran.exit)}
	}
	status := probe.Unknown
	switch ran.exit {
	case 0:
		status = probe.OK
	case 1:
		status = probe.Fail
	}
	r := w.result(c, status, lines[0])
	if ran.failed != "" {
		r.Saw = plainly(words[0] + " " + ran.failed)
	}
	r.Lines = append(r.Lines, lines[1:min(len(lines), maxLines+1)]...)
	r.Facts["exit"] = ran.exit
	return r, nil
}

func (w *walk) notify(ctx context.Context, e *Entry, s *Step) error {
	out, at, err := effect(w, e.Step, s.Name, func() (Notified, error) {
		if s.Notify.Webhook != nil {
			return w.post(ctx, s.Notify.Webhook)
		}
		return w.notifyCommand(ctx, s.Notify.Command)
	})
	if err != nil {
		return err
	}
	e.At, e.Notified = at, &out
	return nil
}

// notifyCommand passes the record so far to a program, on stdin.
func (w *walk) notifyCommand(ctx context.Context, command []string) (Notified, error) {
	words, err := w.words(ctx, command)
	out := Notified{Whom: command[0]}
	switch {
	case ctx.Err() != nil:
		return out, context.Cause(ctx)
	case err != nil:
		out.Failed = plainly(err.Error())
		return out, nil
	case !w.Commands:
		out.Failed = "commands are not allowed here"
		return out, nil
	}
	body, err := json.Marshal(w.record)
	if err != nil {
		return out, fmt.Errorf("writing the record: %w", err)
	}
	ran, err := w.start(ctx, notifyLimit, words, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	if ran.exit != 0 {
		out.Failed = ran.why()
	}
	return out, nil
}

// A webhook gets a few attempts, with increasing pauses between them.
const (
	postLimit = 10 * time.Second // for one attempt
	postTries = 3
	postPause = time.Second
)

// post sends the record so far. The URL may contain a token, so messages name only the URL's host.
func (w *walk) post(ctx context.Context, h *Webhook) (Notified, error) {
	out := Notified{Whom: "a webhook"}
	where, err := w.sight().text(ctx, h.URL)
	if err == nil && h.URLFrom != "" {
		if where = os.Getenv(h.URLFrom); where == "" {
			err = fmt.Errorf("the environment variable %s is not set", h.URLFrom)
		}
	}
	auth := os.Getenv(h.AuthFrom)
	if err == nil && h.AuthFrom != "" && auth == "" {
		err = fmt.Errorf("the environment variable %s is not set", h.AuthFrom)
	}
	if err == nil && !isHTTP(where) {
		err = errors.New("its URL is not http or https")
	}
	if err == nil && readable(where, auth) {
		err = errors.New(notOverHTTP)
	}
	body, bad := w.body(ctx, h)
	if err = cmp.Or(err, bad); err != nil {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		out.Failed = plainly(err.Error())
		return out, nil
	}
	if u, err := url.Parse(where); err == nil {
		out.Whom = u.Host
	}
	client := &http.Client{
		Timeout: postLimit, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	pause := postPause
	for try := 1; ; try++ {
		failed, again := send(ctx, client, where, auth, body)
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		if out.Failed = failed; failed == "" || !again || try == postTries {
			return out, nil
		}
		w.World.Progress(fmt.Sprintf("%s: %s; trying again in %v", out.Whom, failed, pause))
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return out, context.Cause(ctx)
		}
		pause *= 2
	}
}

// notOverHTTP is the reason why a secret is not sent. If the URL is already known, this is checked before the runbook
// starts. It is checked again before sending.
const notOverHTTP = "a secret is not sent over http: use https"

// readable reports whether others on the network could read a secret in the request: the Authorization header, or a
// user and password in the URL, which become that header.
func readable(where, auth string) bool {
	u, err := url.Parse(where)
	return err != nil || u.Scheme != "https" && (auth != "" || u.User != nil)
}

// body returns the body of the request.
func (w *walk) body(ctx context.Context, h *Webhook) ([]byte, error) {
	if h.Body != "" {
		text, err := w.sight().text(ctx, h.Body)
		if err == nil && strings.HasPrefix(strings.TrimSpace(h.Body), "{") && !json.Valid([]byte(text)) {
			err = errors.New("its body is not valid JSON once the values are inserted: use ${json(VALUE)} to insert a string")
		}
		return []byte(text), err
	}
	if h.As != "" {
		return w.record.message(h.As)
	}
	return json.Marshal(w.record)
}

// send makes one attempt. It returns why the attempt failed, or "" if it did not, and whether another attempt may
// succeed.
func send(ctx context.Context, client *http.Client, where, auth string, body []byte) (failed string, again bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, where, bytes.NewReader(body))
	if err != nil {
		return "invalid URL", false
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	if json.Valid(body) {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", "calico-probe/"+probe.Release)
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	resp, err := client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok { // the error's text has the whole URL
			err = u.Err
		}
		return plainly(err.Error()), true
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4096)) // lets the client reuse the connection
	switch {
	case resp.StatusCode < 300:
		return "", false
	case resp.StatusCode < 400:
		return fmt.Sprintf("returned a redirect (%d), which is not followed", resp.StatusCode), false
	}
	return fmt.Sprintf("returned status %d", resp.StatusCode), resp.StatusCode >= 500 ||
		resp.StatusCode == http.StatusTooManyRequests
}
