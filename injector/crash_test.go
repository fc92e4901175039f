package injector

import (
	"context"
	"io"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestConnectionCrashes requires a crash in a connection to be reported as a broken answer.
func TestConnectionCrashes(t *testing.T) {
	t.Parallel()
	s, err := InProcess(func(context.Context, io.Reader, io.Writer) error { panic("boom") }, "of a test")(t.Context(),
		Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan := probe.Plan{Checks: []string{"node-swap"}}
	err = s.Ask(t.Context(), probe.Request{Type: probe.RequestPlan, Plan: &plan}, func(probe.Event) bool { return true })
	if err == nil || !strings.Contains(err.Error(), "crashed: boom") {
		t.Errorf("%v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// crashingStream panics as soon as it is read or written.
type crashingStream struct{}

func (crashingStream) Read([]byte) (int, error)  { panic("boom") }
func (crashingStream) Write([]byte) (int, error) { panic("boom") }
func (crashingStream) Close() error              { return nil }

// TestSendingCrashes requires an error if this program crashes while it sends a request, even to a probe that survives
// a lost connection.
func TestSendingCrashes(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{false, true} {
		s := &Session{kept: kept}
		s.init()
		s.stdin = crashingStream{}
		plan := probe.Plan{Checks: []string{"node-swap"}}
		_, err := s.Send(t.Context(), probe.Request{Type: probe.RequestPlan, Plan: &plan})
		if err == nil || !strings.Contains(err.Error(), "crashed: boom") {
			t.Errorf("kept %v: %v", kept, err)
		}
	}
}

// TestClosingCrashes requires a crash in the end request to be an error of the clean-up.
func TestClosingCrashes(t *testing.T) {
	t.Parallel()
	s := &Session{kept: true, cancel: func() {}, remove: func(bool, bool) error { return nil }}
	s.init()
	s.stdin = crashingStream{}
	s.running.Go(func() { time.Sleep(100 * time.Millisecond); close(s.events) })
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "crashed: boom") {
		t.Errorf("%v", err)
	}
}

// TestSSHCrashes requires a crash while sending to ssh to be ssh's error, and ssh to exit.
func TestSSHCrashes(t *testing.T) {
	t.Parallel()
	onUnix(t)
	err := run(exec.CommandContext(t.Context(), "cat"), crashingStream{}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "crashed: boom") {
		t.Errorf("%v", err)
	}
}

// TestRenewingCrashes requires a message to the user about why a probe ends early.
func TestRenewingCrashes(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset()
	noted := make(chan string, 1)
	o := Options{Namespace: "ns", Run: "r1", Image: "x", Note: func(text string) { noted <- text }}
	p := &placement{client: &Client{kube: kube}, options: o, namespace: o.Namespace}
	synctest.Test(t, func(t *testing.T) {
		kube.PrependReactor("patch", "jobs", func(k8stesting.Action) (bool, runtime.Object, error) { panic("boom") })
		if p.startJanitor(t.Context()) == nil {
			t.Fatal(p.afterwards)
		}
		time.Sleep(2 * janitorRenew)
		if text := <-noted; !strings.Contains(text, "crashed: boom") || !strings.Contains(text, "is removed within 40s") {
			t.Error(text)
		}
	})
}
