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

// Kubelet is a node's kubelet as it is asked by HTTP, through the API server: what it serves of /var/log, of the
// services' lines, of the node's size and of its own settings. It answers what it likes, as a node does.
type Kubelet struct {
	Client *http.Client // with the user's credentials; it has to follow no redirect
	URL    string       // of the API server's proxy to it: https://HOST/api/v1/nodes/NODE/proxy

	mu      sync.Mutex
	read    int64 // bytes of answers so far
	summary func(context.Context) (kubeletSummary, error)
}

// Bounds of what is read of one kubelet, and how long one answer of it may take.
const (
	kubeletMost  = 32 << 20 // bytes in all
	kubeletText  = 2 << 20  // of one answer
	kubeletLimit = 5 * time.Second
	kubeletCheck = 25 * time.Second // of a check, which asks several times
)

// kubeletAnswer is an answer of a kubelet.
type kubeletAnswer struct {
	code   int
	header http.Header
	body   []byte
	cut    bool // there is more
}

// A KubeletError is an answer that is none to the question.
type KubeletError struct {
	Code  int    // of HTTP
	ByAPI bool   // the API server's own, which has not asked the kubelet or not reached it
	Text  string // one line
}

func (e *KubeletError) Error() string { return e.Text }

// Is makes what is not there, and what is turned off, known to those who look for files.
func (e *KubeletError) Is(target error) bool {
	switch e.Code {
	case http.StatusNotFound:
		return target == fs.ErrNotExist && !e.ByAPI
	case http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable:
		return target == probe.ErrNotVisible
	}
	return false
}

// get asks for a path, such as "/logs/kubelet.log?x=y", or the bytes of it that ranged names, and reads so much of
// the answer. The error is a *KubeletError where the answer is another than that.
func (k *Kubelet) get(ctx context.Context, path, ranged string, most int64) (kubeletAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeletLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.URL+path, nil)
	if err != nil {
		return kubeletAnswer{}, fmt.Errorf("asking the kubelet: %w", err)
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
		return kubeletAnswer{}, fmt.Errorf("%d MiB of this kubelet's answers were read: no more", kubeletMost>>20)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	k.took(int64(len(body)))
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

// left is how much may still be read.
func (k *Kubelet) left() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return kubeletMost - k.read
}

func (k *Kubelet) took(n int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.read += n
}

// unanswered is the error of a question without an answer. What net/http says names the whole address.
func unanswered(path string, err error) error {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer to %s within %v: %w", path, kubeletLimit, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// refusedBy tells what the API server says from what the kubelet says.
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

// Greet asks whether the kubelet answers at all, and tells by how much its clock is ahead of this machine's. A bad
// answer to /healthz is one.
func (k *Kubelet) Greet(ctx context.Context) (ahead time.Duration, err error) {
	a, err := k.get(ctx, "/healthz", "", kubeletText)
	if e, ok := errors.AsType[*KubeletError](err); ok && !e.ByAPI && e.Code == http.StatusInternalServerError {
		err = nil
	}
	if err != nil {
		return 0, err
	}
	if at, err := http.ParseTime(a.header.Get("Date")); err == nil {
		if ahead = time.Until(at); ahead.Abs() < 2*time.Second { // it has whole seconds
			ahead = 0
		}
	}
	return ahead, nil
}
