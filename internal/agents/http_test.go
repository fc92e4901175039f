package agents

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/calico-probe/calico-probe/internal/gate"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestHTTPAsks serves HTTP clients of an old and a new protocol that can ask their user, and one that cannot. A probe
// is placed only if the user was asked and agreed.
func TestHTTPAsks(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		protocol, action string // action "" = the client cannot ask
		asked, ran       int64
	}{
		"new, accepted":  {"2026-07-28", "accept", 1, 1},
		"new, declined":  {"2026-07-28", "decline", 1, 0},
		"new, cannot":    {"2026-07-28", "", 0, 0},
		"old, would":     {"2025-06-18", "accept", 0, 0},
		"older, would":   {"2025-03-26", "accept", 0, 0},
		"old, cannot":    {"2025-06-18", "", 0, 0},
		"before, would":  {"2025-11-25", "accept", 0, 0},
		"before, cannot": {"2025-11-25", "", 0, 0},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var ran, asked atomic.Int64
			world := liar(t)
			said := world.Run
			world.Run = func(ctx context.Context, node string, how How) (report.Run, report.Document, error) {
				if how.Via != viaAPI {
					ran.Add(1)
				}
				return said(ctx, node, how)
			}
			o := &mcp.ClientOptions{}
			if c.action != "" {
				o.ElicitationHandler = func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					asked.Add(1)
					return &mcp.ElicitResult{Action: c.action}, nil
				}
			}
			client := overHTTP(t, world, o, c.protocol)
			if got := client.InitializeResult().ProtocolVersion; got != c.protocol {
				t.Fatalf("the protocol is %s", got)
			}
			if r, text := called(t, client, "run", map[string]any{"node": "worker-3"}); r.IsError != (c.ran == 0) ||
				asked.Load() != c.asked || ran.Load() != c.ran {
				t.Errorf("asked %d times, ran %d times: %s", asked.Load(), ran.Load(), text)
			}
			if r, text := called(t, client, "mesh", nil); r.IsError != (c.ran == 0) {
				t.Errorf("mesh: %s", text)
			}
			if r, text := called(t, client, "run", map[string]any{"node": "worker-3", "via": viaAPI}); r.IsError {
				t.Errorf("calls that create nothing: %s", text)
			}
		})
	}
}

// overHTTP connects a client of a protocol to the tools, on loopback.
func overHTTP(t *testing.T, world World, o *mcp.ClientOptions, protocol string) *mcp.ClientSession {
	t.Helper()
	const token = "0123456789abcdef"
	name := filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(name, []byte(token), 0o600))
	log := slog.New(slog.NewJSONHandler(io.Discard, nil))
	keeper, err := gate.Open(gate.Access{TokenFile: name}, log)
	if err != nil {
		t.Fatal(err)
	}
	world.Probes = true
	s, err := New(world, log)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.HTTP(ctx, l, keeper, Front{Hosts: []string{"127.0.0.1"}}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	with := &http.Client{Timeout: 20 * time.Second, Transport: tripper(func(r *http.Request) (*http.Response, error) {
		r.Header.Set("Authorization", "Bearer "+token)
		return http.DefaultTransport.RoundTrip(r)
	})}
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: "http://" + l.Addr().String() + Path, HTTPClient: with, MaxRetries: -1,
			DisableStandaloneSSE: true}, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// TestYesIsForItsQuestion forges consent, for example for other arguments: the server asks the user.
func TestYesIsForItsQuestion(t *testing.T) {
	t.Parallel()
	var ran, asked atomic.Int64
	world := liar(t)
	world.Run = func(context.Context, string, How) (report.Run, report.Document, error) {
		ran.Add(1)
		return report.Run{}, report.Document{}, nil
	}
	client := overHTTP(t, world, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked.Add(1)
			return &mcp.ElicitResult{Action: "decline"}, nil
		}}, "2026-07-28")
	r, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "run", Arguments: map[string]any{"node": "worker-3"},
		RequestState: "forged", InputResponses: mcp.InputResponseMap{"confirm": &mcp.ElicitResult{Action: "accept"}}})
	if err != nil || !r.IsError || asked.Load() != 1 || ran.Load() != 0 {
		t.Errorf("asked %d times, ran %d times: %v, %v", asked.Load(), ran.Load(), r, err)
	}
}
