//go:build e2e

package e2e

import (
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// relay passes bytes between the client and the API server and can cut every
// connection it holds, as a bad line would.
type relay struct {
	listener net.Listener
	server   string

	mu    sync.Mutex
	conns []net.Conn
	cuts  int
	off   bool // it takes nothing
}

func newRelay(t *testing.T) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return relayOn(t, l)
}

// relayOn is a relay whose clients come in by a listener.
func relayOn(t *testing.T, l net.Listener) *relay {
	t.Helper()
	config, err := clientcmd.LoadFromFile(os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(config.Clusters[config.Contexts[config.CurrentContext].Cluster].Server)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, server: server.Host}
	t.Cleanup(func() { l.Close(); r.cut() })
	go r.accept()
	return r
}

func (r *relay) accept() {
	for {
		in, err := r.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", r.server)
		if err != nil {
			in.Close()
			continue
		}
		r.mu.Lock()
		off := r.off
		if !off {
			r.conns = append(r.conns, in, out)
		}
		r.mu.Unlock()
		if off {
			in.Close()
			out.Close()
			continue
		}
		for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
			go func() {
				_, _ = io.Copy(pair[0], pair[1]) // ends with the connection
				pair[0].Close()
				pair[1].Close()
			}()
		}
	}
}

// away cuts all connections and every new attempt until it is disabled.
func (r *relay) away(is bool) {
	r.mu.Lock()
	r.off = is
	r.mu.Unlock()
	if is {
		r.cut()
	}
}

func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
		r.cuts++
	}
	r.conns = nil
}

// kubeconfig is the tests configuration with the relay in front of the server.
func (r *relay) kubeconfig(t *testing.T) string {
	config, err := clientcmd.LoadFromFile(os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	config.Clusters[config.Contexts[config.CurrentContext].Cluster].Server = "https://" + r.listener.Addr().String()
	name := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*config, name); err != nil {
		t.Fatal(err)
	}
	return name
}
