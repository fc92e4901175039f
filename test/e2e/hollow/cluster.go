//go:build e2e

// Package hollow is a large cluster without machines. The real etcd and kube-apiserver run on loopback, and nodes are
// only objects. One process acts as the kubelet for each probe pod: the pod starts, answers its plan, writes its
// termination message and exits. The answers were recorded on real nodes (internal/nightfile). No controllers run, so
// nothing is cleaned up automatically.
package hollow

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// root is the repository's.
const root = "../../.."

// token is that of the only user, who may do everything.
const token = "hollow"

// Cluster is an API server behind a proxy that counts the client's requests.
type Cluster struct {
	Kube       kubernetes.Interface
	Kubeconfig string
	requests   atomic.Int64 // by way of the kubeconfig

	dir  string
	port int            // of the API server
	pids map[string]int // of the programs, by name
}

// newCluster starts a cluster without nodes; it ends with the test.
func newCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{dir: t.TempDir(), port: freePort(t), pids: map[string]int{}}
	etcd, peer := freePort(t), freePort(t)
	at := func(port int) string { return "http://127.0.0.1:" + strconv.Itoa(port) }
	c.start(t, "etcd", "--data-dir", filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync", "--log-level", "error",
		"--listen-client-urls", at(etcd), "--advertise-client-urls", at(etcd), "--listen-peer-urls", at(peer),
		"--initial-advertise-peer-urls", at(peer), "--initial-cluster", "default="+at(peer),
		"--quota-backend-bytes", strconv.Itoa(4<<30))
	key := c.file(t, "sa.key", pem.EncodeToMemory(rsaKey(t)))
	tokens := c.file(t, "tokens", []byte(token+",hollow,hollow,system:masters\n"))
	c.start(t, "kube-apiserver", "--etcd-servers", at(etcd), "--secure-port", strconv.Itoa(c.port),
		"--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--cert-dir", filepath.Join(c.dir, "certs"),
		"--token-auth-file", tokens, "--authorization-mode", "AlwaysAllow", "--service-cluster-ip-range", "10.96.0.0/16",
		"--service-account-key-file", key, "--service-account-signing-key-file", key,
		"--service-account-issuer", "https://hollow", "--disable-admission-plugins",
		"ServiceAccount,TaintNodesByCondition",
		"--allow-privileged", "--kubelet-preferred-address-types", "ExternalIP",
		"--max-requests-inflight", "800", "--max-mutating-requests-inflight", "400")
	config := &rest.Config{Host: "https://127.0.0.1:" + strconv.Itoa(c.port), BearerToken: token,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 2000, Burst: 2000}
	var err error
	if c.Kube, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	c.awaitReady(t)
	c.proxy(t, config)
	return c
}

func (c *Cluster) awaitReady(t testing.TB) {
	t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for {
		_, err := c.Kube.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the API server is not ready: %v\n%s", err, c.said("kube-apiserver"))
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// proxy counts requests on their way to the API server, and writes a kubeconfig that goes by way of it.
func (c *Cluster) proxy(t testing.TB, config *rest.Config) {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	reverse := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.requests.Add(1)
			reverse.ServeHTTP(w, r)
		})}
	go server.Serve(listener) //nolint:errcheck // it ends with Close
	t.Cleanup(func() { server.Close() })
	c.Kubeconfig = c.file(t, "kubeconfig", fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"hollow",
"contexts":[{"name":"hollow","context":{"cluster":"hollow","user":"hollow"}}],
"clusters":[{"name":"hollow","cluster":{"server":"http://%s"}}],"users":[{"name":"hollow","user":{}}]}`, listener.Addr()))
}

// start starts a program of the control plane; it is killed when the test ends.
func (c *Cluster) start(t testing.TB, name string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(c.dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(root, ".cache/bin", name), args...)
	cmd.Args[0] = name // of several in one file
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s, which 'make sandbox' and one 'sandbox up' build: %v", name, err)
	}
	c.pids[name] = cmd.Process.Pid
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // killed
		log.Close()
	})
}

// memory is the most that a program of the control plane has taken, in bytes.
func (c *Cluster) memory(t testing.TB, name string) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pids[name]))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), "VmHWM:")
	var kilobytes int64
	if _, err := fmt.Sscan(after, &kilobytes); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return kilobytes << 10
}

// said returns the end of a control plane program's log.
func (c *Cluster) said(name string) string {
	b, _ := os.ReadFile(filepath.Join(c.dir, name+".log"))
	lines := strings.Split(string(bytes.TrimSpace(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

func (c *Cluster) file(t testing.TB, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func rsaKey(t testing.TB) *pem.Block {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// each does something for so many numbers, some at a time, and stops the test at the first error.
func each(ctx context.Context, t testing.TB, n int, do func(context.Context, int) error) {
	t.Helper()
	numbers, failed := make(chan int), make(chan error, 1)
	const workers = 32
	done := make(chan struct{})
	for range workers {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range numbers {
				if err := do(ctx, i); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			}
		}()
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	for range workers {
		<-done
	}
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
}
