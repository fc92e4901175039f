package injector

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestConnectionCrashes wants a connection at which this program fails to be an answer that broke off.
func TestConnectionCrashes(t *testing.T) {
	t.Parallel()
	s, err := Local(func(context.Context, io.Reader, io.Writer) error { panic("boom") })(t.Context(), Options{})
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
