//go:build e2e

package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// A sweeper stands between clients and the real API server, counts the calls of each, and fails one of them. It knows a
// client by the token in the kubeconfig that it made for it.
type sweeper struct {
	kubeconfig string
	mu         sync.Mutex
	clients    map[string]*sweptClient
}

// sweptClient is one client of a sweeper.
type sweptClient struct {
	kubeconfig string
	fail       string // the call that fails, "" = none
	by         string // how
	mu         sync.Mutex
	calls      []string
	seen       map[string]int
	failed     bool
}

func newSweeper(t testing.TB) *sweeper {
	t.Helper()
	s := &sweeper{clients: map[string]*sweptClient{}}
	s.kubeconfig = inFront(t, func(proxy *httputil.ReverseProxy, w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		c := s.clients[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		s.mu.Unlock()
		if c == nil || !c.fails(r) {
			proxy.ServeHTTP(w, r)
			return
		}
		sweepFailures[c.by](proxy, w, r)
	})
	return s
}

// client is a new client of which one call is to fail.
func (s *sweeper) client(t testing.TB, fail, by string) *sweptClient {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	token := "client-" + strconv.Itoa(len(s.clients))
	c := &sweptClient{fail: fail, by: by, seen: map[string]int{}, kubeconfig: filepath.Join(t.TempDir(), token)}
	s.clients[token] = c
	config, err := clientcmd.LoadFromFile(s.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.AuthInfos["front"].Token = token
	if err := clientcmd.WriteToFile(*config, c.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return c
}

// The parts of a call that differ between runs: the run's ID, an object's UID, the resource version, and a pod name
// from a controller.
var (
	ofRun     = regexp.MustCompile(`calico-probe-([a-z0-9-]*?)-?[0-9a-f]{8}\b|calico-probe\.io%2Frun%3D[0-9a-f]{8}`)
	ofUID     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	ofVersion = regexp.MustCompile(`&?(resourceVersion|timeoutSeconds|timeout)=[0-9a-z]+`)
	ofPod     = regexp.MustCompile(`\b(calico-node|kube-proxy|coredns(-[a-z0-9]{8,10})?)-[a-z0-9]{5}\b`)
)

// callOf returns the call of a request, which is the same in each run.
func callOf(r *http.Request) string {
	text := ofUID.ReplaceAllString(r.URL.String(), "UID")
	text = ofRun.ReplaceAllString(text, "calico-probe-$1-RUN")
	text = ofPod.ReplaceAllString(ofVersion.ReplaceAllString(text, ""), "$1-POD")
	return r.Method + " " + text
}

// fails notes a call, and tells whether it is the one that fails.
func (c *sweptClient) fails(r *http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := callOf(r)
	c.seen[call]++
	call = fmt.Sprintf("%s #%d", call, c.seen[call])
	c.calls = append(c.calls, call)
	now := call == c.fail
	c.failed = c.failed || now
	return now
}

// sweepFailures are the ways in which a call fails.
var sweepFailures = map[string]func(proxy *httputil.ReverseProxy, w http.ResponseWriter, r *http.Request){
	"500": func(_ *httputil.ReverseProxy, w http.ResponseWriter, _ *http.Request) {
		refuseWith(w, http.StatusInternalServerError)
	},
	"429": func(_ *httputil.ReverseProxy, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		refuseWith(w, http.StatusTooManyRequests)
	},
	// The request is executed, and half of its answer arrives.
	"cut": func(proxy *httputil.ReverseProxy, w http.ResponseWriter, r *http.Request) {
		proxy.ServeHTTP(&cutWriter{ResponseWriter: w}, r)
		panic(http.ErrAbortHandler)
	},
	// The request is executed, but its answer is lost. A stream request is not sent.
	"silent": func(proxy *httputil.ReverseProxy, _ http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if r.Header.Get("Upgrade") == "" && query.Get("watch") == "" && query.Get("follow") == "" {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
		}
		_, _ = io.Copy(io.Discard, r.Body) // only then the server sees the connection end
		<-r.Context().Done()
	},
}

func refuseWith(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"not now","code":%d}`, status)
}

// streamed is how much is forwarded of an answer without a length, such as a watch, a log or a session.
const streamed = 1500

var errSwept = errors.New("cut")

// cutWriter passes on half of an answer.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (w *cutWriter) WriteHeader(status int) {
	w.left = streamed
	if n, err := strconv.Atoi(w.Header().Get("Content-Length")); err == nil {
		w.left = n / 2
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *cutWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b[:min(len(b), w.left)])
	w.left -= n
	if err == nil && n < len(b) {
		w.Flush()
		err = errSwept
	}
	return n, err
}

func (w *cutWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

func (w *cutWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	return &cutConn{Conn: conn, left: streamed}, buffered, err
}

// cutConn is an upgraded connection that ends in the middle.
type cutConn struct {
	net.Conn
	left int
}

func (c *cutConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b[:min(len(b), c.left)])
	c.left -= n
	if err == nil && n < len(b) {
		err = errSwept
		c.Close()
	}
	return n, err
}

// replaceRow puts a row into a page in place of the one that begins as it does.
func replaceRow(path, head, row string) error {
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	name := func(line string) string {
		return strings.Join(strings.SplitN(line, "|", 4)[:min(3, strings.Count(line, "|"))], "|")
	}
	out, put := head, false
	for line := range strings.Lines(string(old)) {
		switch {
		case !strings.HasPrefix(line, "| `"):
		case name(line) == name(row):
			out, put = out+row+"\n", true
		default:
			out += line
		}
	}
	if !put {
		out += row + "\n"
	}
	return os.WriteFile(path, []byte(out), 0o644)
}
