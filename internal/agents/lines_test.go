package agents

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestGarbage requires an error for an invalid line, and a session that continues.
func TestGarbage(t *testing.T) {
	t.Parallel()
	in, agent := io.Pipe()
	answers, out := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s := must.Get(New(liar(t), slog.New(slog.DiscardHandler)))(t)
	done := make(chan error, 1)
	go func() { done <- s.Stdio(ctx, in, out) }()
	go func() {
		for _, line := range []string{"Last login: Thu Nov 26", `{"no":"message"}`, "5", "", "[INFO] profile loaded",
			"[]", "[1]",
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`, strings.Repeat("x", 1<<17),
			`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`} {
			_, _ = io.WriteString(agent, line+"\n")
		}
	}()
	lines := bufio.NewScanner(answers)
	lines.Buffer(nil, 4<<20)
	errors := 0
	for lines.Scan() {
		switch text := lines.Text(); {
		case strings.Contains(text, `"code":-32700`):
			errors++
		case strings.Contains(text, `"id":2`):
			if !strings.Contains(text, `"tools":[`) || errors != 7 {
				t.Errorf("%d errors, then %.200s", errors, text)
			}
			_ = agent.Close()
			_ = answers.Close()
			if err := <-done; err != nil {
				t.Error(err)
			}
			return
		}
	}
	t.Fatalf("tools/list is not answered, after %d errors: %v", errors, lines.Err())
}

// TestLongLine requires a line that is too long to be dropped, and the next one to be read.
func TestLongLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	message := `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	in := io.NopCloser(strings.NewReader(strings.Repeat("x", maxMessage+1<<20) + "\n" + message))
	m := &messages{lines: bufio.NewReader(in), in: in, out: &out}
	got, err := io.ReadAll(m)
	if err != nil || string(got) != message+"\n" || strings.Count(out.String(), "-32700") != 1 {
		t.Errorf("%v: %.100s, answered %s", err, got, out.String())
	}
}
