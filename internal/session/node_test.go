package session

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// withTools returns a node whose probe runs in this process. It has a tool that runs until it is stopped, and one that
// ends immediately.
func withTools(t *testing.T) *nodeSession {
	t.Helper()
	tool := func(name string, run probe.ToolFunc) *probe.Tool {
		return &probe.Tool{Name: name, Parse: func([]string) (probe.ToolFunc, error) { return run, nil }}
	}
	return nodeWith(t,
		tool("stay", func(ctx context.Context, j *probe.Job) probe.Result {
			j.Say("here")
			<-ctx.Done()
			return probe.Found(probe.OK, "stopped")
		}),
		tool("go", func(context.Context, *probe.Job) probe.Result { return probe.Found(probe.OK, "gone") }),
	)
}

// nodeWith returns a node whose probe runs in this process with these tools.
func nodeWith(t *testing.T, all ...*probe.Tool) *nodeSession {
	t.Helper()
	r := &probe.Runner{Host: &probe.Host{}, Tools: all}
	session := must.Get(injector.InProcess(r.Serve, "of a test")(t.Context(), injector.Options{}))(t)
	t.Cleanup(func() { _ = session.Close() })
	s := &nodeSession{client: testClient(io.Discard), opts: examine.Options{Node: "node-a"}, session: session,
		answers: report.Latest{Node: "node-a"}}
	for _, tool := range all {
		s.tools = append(s.tools, tool.Name)
	}
	return s
}

// TestStopKeepsTheProbe requires a stopped command to report its outcome, and the same probe to answer the next one.
func TestStopKeepsTheProbe(t *testing.T) {
	t.Parallel()
	s := withTools(t)
	session := s.session
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		got, err := s.call(ctx, probe.Call{Tool: "stay"}, func(ev probe.Event) {
			if ev.Type == probe.EventOut {
				cancel()
			}
		})
		if err != nil || got.Saw != "stopped" {
			t.Errorf("stopped: %v, %v", got, err)
		}
		if got, err := s.call(t.Context(), probe.Call{Tool: "go"}, func(probe.Event) {}); err != nil || got.Saw != "gone" {
			t.Errorf("the next: %v, %v", got, err)
		}
	}
	if s.session != session || s.lost {
		t.Error("it was let go")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // before anything is sent
	began := time.Now()
	if got, err := s.call(ctx, probe.Call{Tool: "stay"}, func(probe.Event) {}); err != nil ||
		time.Since(began) > stopLimit {
		t.Errorf("%v, %v after %v", got, err, time.Since(began))
	}
	if err := leaveAll([]*nodeSession{s, {}}); err != nil || s.session != nil {
		t.Error(err)
	}
}

// TestAProbeThatEndsIsLetGo requires the session to notice a probe that accepts no more requests.
func TestAProbeThatEndsIsLetGo(t *testing.T) {
	t.Parallel()
	s := withTools(t)
	must.Do(t, s.session.Close())
	if s.session.Gone() == nil {
		t.Error("a probe that has ended passes for there")
	}
	if err := s.ask(t.Context(), probe.Request{Type: probe.RequestCall, Call: &probe.Call{Tool: "go"}},
		func(probe.Event) {}); err == nil {
		t.Error("it answered")
	}
	if s.session != nil || !s.lost {
		t.Error("it was not let go")
	}
}

// TestAPagerThatIsReadKeepsTheProbe leaves a tool's output unread after Ctrl-C for longer than a stop may take. The
// probe survives, and no output is lost.
func TestAPagerThatIsReadKeepsTheProbe(t *testing.T) {
	t.Parallel()
	s := nodeWith(t, &probe.Tool{Name: "much", Parse: func([]string) (probe.ToolFunc, error) {
		return func(ctx context.Context, j *probe.Job) probe.Result {
			for ctx.Err() == nil {
				j.Say("a line")
			}
			j.Say("the last")
			return probe.Found(probe.OK, "stopped")
		}, nil
	}})
	session := s.session
	ctx, cancel := context.WithCancel(t.Context())
	last := ""
	got, err := s.call(ctx, probe.Call{Tool: "much"}, func(ev probe.Event) {
		if ev.Type == probe.EventOut && ctx.Err() == nil {
			cancel()
			time.Sleep(stopLimit + time.Second)
		}
		last += ev.Text
		last = last[max(0, len(last)-20):]
	})
	if err != nil || got.Saw != "stopped" || !strings.HasSuffix(last, "the last\n") {
		t.Errorf("%v, %v, %q", got, err, last)
	}
	if s.session != session || s.lost {
		t.Error("the probe was let go")
	}
}

// TestWhatCouldNotBeAsked requires that a tool that could not run is not reported as a bug.
func TestWhatCouldNotBeAsked(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*nodeSession{"no probe": {opts: examine.Options{Node: "node-a"}},
		"another version": withTools(t)} {
		_, err := s.call(t.Context(), probe.Call{Tool: "none"}, func(probe.Event) {})
		if codeOf(err) != report.ExitIncomplete {
			t.Errorf("%s: %v is exit code %d", name, err, codeOf(err))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &nodeSession{opts: examine.Options{Node: "node-a"}}
	if _, err := s.call(ctx, probe.Call{Tool: "go"}, func(probe.Event) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

// TestClosedOutputEndsATool stops a tool that writes forever, as behind the local pipe "| head -1".
func TestClosedOutputEndsATool(t *testing.T) {
	t.Parallel()
	s := nodeWith(t, &probe.Tool{Name: "much", Parse: func([]string) (probe.ToolFunc, error) {
		return func(ctx context.Context, j *probe.Job) probe.Result {
			for ctx.Err() == nil {
				j.Say("a line")
			}
			return probe.Found(probe.OK, "stopped")
		}, nil
	}})
	out, into := io.Pipe()
	go func() {
		_, _ = out.Read(make([]byte, 1))
		out.CloseWithError(syscall.EPIPE)
	}()
	c := &Session{at: s}
	if err := c.useTool(t.Context(), &prompt.Call{Out: into}, probe.Call{Tool: "much"}); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("%v", err)
	}
	if s.session == nil {
		t.Error("the probe was let go")
	}
}

// TestNodeMeant accepts any unique part of a node's name, as in the list at the start of a session.
func TestNodeMeant(t *testing.T) {
	t.Parallel()
	snap := &cluster.Snapshot{}
	for _, name := range []string{"worker", "worker-1", "worker-12", "gpu-a", "n1", "n2", "n3", "n4", "n5", "n6"} {
		snap.Nodes = append(snap.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	c := &Session{at: &nodeSession{snap: snap}}
	for typed, want := range map[string]string{
		"worker": "worker", "worker-1": "worker-1", "12": "worker-12", "gpu": "gpu-a", "nowhere": "nowhere",
		"worker-": "! matches 2 nodes: worker-1, worker-12", "n": "! matches 6 nodes: n1, n2, n3, n4, n5, ...",
	} {
		got, err := c.meant(typed)
		if want, ambiguous := strings.CutPrefix(want, "!"); ambiguous != (err != nil) || err != nil &&
			!strings.HasSuffix(err.Error(), want) || err == nil && got != want {
			t.Errorf("%s: %q, %v", typed, got, err)
		}
	}
	if got, err := (&Session{}).meant("any"); got != "any" || err != nil {
		t.Errorf("of a session that begins: %q, %v", got, err)
	}
}

// testClient returns a client without a cluster.
func testClient(messages io.Writer) *examine.Client {
	return examine.NewClient(examine.Config{Probe: func(string) []byte { return nil },
		Ours: func(string) bool { return false }}, messages)
}
