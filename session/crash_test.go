package session

import (
	"context"
	"errors"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/prompt"
)

// TestCommandCrashes wants a command that panics to end with an error.
func TestCommandCrashes(t *testing.T) {
	t.Parallel()
	crashes := func(context.Context, *prompt.Call) error { panic("a blank field") }
	all := recovered([]*prompt.Command{{Name: "x", Run: crashes}})
	if err := all[0].Run(t.Context(), nil); !errors.As(err, new(*probe.Crash)) {
		t.Errorf("%v", err)
	}
}
