package kubeletproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Kubelet is a node's kubelet, queried over HTTP through the API server. It serves files below /var/log, journal lines,
// the node's size and the kubelet's configuration. Do not trust its answers, because a broken or malicious node can
// send anything.
type Kubelet struct {
	Client *http.Client // with the user's credentials; it must not follow redirects
	URL    string       // the API server's proxy to the kubelet: https://HOST/api/v1/nodes/NODE/proxy

	mu      sync.Mutex
	read    int64 // bytes of answers that have been read so far
	summary func(context.Context) (kubeletSummary, error)
}

// Limits for the number of bytes to read from one kubelet, and for the time of one answer.
const (
	maxTotal     = 32 << 20 // bytes in total
	maxText      = 2 << 20  // for one answer
	kubeletLimit = 5 * time.Second
	kubeletCheck = 25 * time.Second // for a check, which sends several requests
)

// kubeletAnswer is an answer of a kubelet.
type kubeletAnswer struct {
	code   int
	header http.Header
	body   []byte
	cut    bool // the whole answer is longer
}

// A KubeletError is an error response from the kubelet or the API server.
type KubeletError struct {
	Code  int    // HTTP status
	ByAPI bool   // the API server itself answered: it did not query the kubelet, or did not reach it
	Text  string // one line
}

func (e *KubeletError) Error() string { return e.Text }

// Is maps missing and disabled endpoints to the errors that code for reading files expects.
func (e *KubeletError) Is(target error) bool {
	switch e.Code {
	case http.StatusNotFound:
		return target == fs.ErrNotExist && !e.ByAPI
	case http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable:
		return target == probe.ErrNotVisible
	}
	return false
}

// get requests a path, such as "/logs/kubelet.log?x=y", or a range of its bytes, and reads at most most bytes. An
// error answer is a *KubeletError.
func (k *Kubelet) get(ctx context.Context, path, ranged string, most int64) (kubeletAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeletLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.URL+path, nil)
	if err != nil {
		return kubeletAnswer{}, fmt.Errorf("querying the kubelet: %w", err)
	}
	if ranged != "" {
		req.Header.Set("Range", ranged)
	}
	resp, err := k.Client.Do(req)
	if err != nil {
		return kubeletAnswer{}, unanswered(path, err)
	}
	defer resp.Body.Close()
	most = min(most, k.left())
	if most <= 0 {
		return kubeletAnswer{}, fmt.Errorf("stopped reading after %d MiB of this kubelet's answers", maxTotal>>20)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	k.addRead(int64(len(body)))
	if err != nil {
		return kubeletAnswer{}, unanswered(path, err)
	}
	out := kubeletAnswer{code: resp.StatusCode, header: resp.Header, body: body, cut: int64(len(body)) > most}
	if out.cut {
		out.body = body[:most]
	}
	if out.code != http.StatusOK && out.code != http.StatusPartialContent {
		return out, refusedBy(path, out)
	}
	return out, nil
}

// left returns the number of bytes that may still be read.
func (k *Kubelet) left() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maxTotal - k.read
}

func (k *Kubelet) addRead(n int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.read += n
}

// unanswered returns the error for a request without an answer. It omits the URL, which net/http's error contains.
func unanswered(path string, err error) error {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer to %s within %v: %w", path, kubeletLimit, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// refusedBy distinguishes the API server's error responses from the kubelet's.
func refusedBy(path string, a kubeletAnswer) *KubeletError {
	e := &KubeletError{Code: a.code}
	var status struct{ Kind, Message string }
	text := string(a.body[:min(len(a.body), 1<<10)])
	if json.Unmarshal(a.body, &status) == nil && status.Kind == "Status" {
		e.ByAPI, text = true, status.Message
	}
	e.Text = fmt.Sprintf("%d to %s: %s", a.code, path, probe.Quoted(text))
	return e
}

// Greet checks whether the kubelet answers, and returns how far its clock is ahead of this machine's clock. An error
// status from /healthz is also an answer.
func (k *Kubelet) Greet(ctx context.Context) (ahead time.Duration, err error) {
	a, err := k.get(ctx, "/healthz", "", maxText)
	if e, ok := errors.AsType[*KubeletError](err); ok && !e.ByAPI && e.Code == http.StatusInternalServerError {
		err = nil
	}
	if err != nil {
		return 0, err
	}
	if at, err := http.ParseTime(a.header.Get("Date")); err == nil {
		if ahead = time.Until(at); ahead.Abs() < 2*time.Second { // the Date header has whole seconds
			ahead = 0
		}
	}
	return ahead, nil
}
