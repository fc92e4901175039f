package agents

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/gate"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestStopCleansUp stops a server during a call. It must end only after the call has removed what it created.
func TestStopCleansUp(t *testing.T) {
	t.Parallel()
	const begin = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run","arguments":{"node":"a","via":"api"}}}`
	name := filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(name, []byte("0123456789abcdef"), 0o600))
	for what, serve := range map[string]func(*testing.T, context.Context, *Server) error{
		"stdin ends": func(_ *testing.T, ctx context.Context, s *Server) error {
			in, to := io.Pipe()
			context.AfterFunc(ctx, func() { _ = to.Close() })
			go func() { _, _ = io.WriteString(to, begin+call+"\n") }()
			return s.Stdio(context.WithoutCancel(ctx), in, io.Discard)
		},
		"stdio": func(_ *testing.T, ctx context.Context, s *Server) error {
			in, to := io.Pipe()
			go func() { _, _ = io.WriteString(to, begin+call+"\n") }()
			return s.Stdio(ctx, in, io.Discard)
		},
		"HTTP": func(t *testing.T, ctx context.Context, s *Server) error {
			keeper := must.Get(gate.Open(gate.Access{TokenFile: name}, slog.New(slog.DiscardHandler)))(t)
			l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
			go func() {
				req, _ := http.NewRequest(http.MethodPost, "http://"+l.Addr().String()+Path, strings.NewReader(call))
				req.Header.Set("Authorization", "Bearer 0123456789abcdef")
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Accept", "application/json, text/event-stream")
				if resp, err := http.DefaultClient.Do(req); err == nil {
					_ = resp.Body.Close()
				}
			}()
			return s.HTTP(ctx, l, keeper, Front{Hosts: []string{"127.0.0.1"}})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w, begun, removed := liar(t), make(chan struct{}), atomic.Bool{}
			w.Run = func(ctx context.Context, _ string, _ How) (report.Run, report.Document, error) {
				close(begun)
				select {
				case <-ctx.Done():
				case <-time.After(20 * time.Second):
					t.Error("the call goes on")
				}
				time.Sleep(time.Second / 2) // what it made is removed
				removed.Store(true)
				return report.Run{}, report.Document{}, ctx.Err()
			}
			s, err := New(w, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- serve(t, ctx, s) }()
			select {
			case <-begun:
			case <-time.After(20 * time.Second):
				t.Fatal("the call does not begin")
			}
			began := time.Now()
			cancel()
			err = <-ended
			if err != nil || !removed.Load() || time.Since(began) > 10*time.Second {
				t.Errorf("it ends after %v: %v, and what was made is removed: %v", time.Since(began), err, removed.Load())
			}
		})
	}
}

// TestPanic makes a tool crash with a node's text: the caller gets it quoted, and the next call works.
func TestPanic(t *testing.T) {
	t.Parallel()
	w := liar(t)
	w.Explain = func(string) (string, error) { panic(hostile) }
	c, log := connected(t, w, nil)
	got, text := called(t, c, "explain", map[string]any{"id": "node-swap"})
	if !got.IsError || !strings.Contains(text, "a bug in this program: crashed: ") {
		t.Errorf("%s", text)
	}
	harmless(t, "a crash", text)
	if !strings.Contains(log.String(), "a call hit a bug in this program") {
		t.Errorf("the log: %s", log)
	}
	if got, text = called(t, c, "result", map[string]any{}); got.IsError {
		t.Errorf("%s", text)
	}
}
