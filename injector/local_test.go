package injector

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestLocalInterrupted interrupts an upload to this machine after part of the probe has arrived. The shell's trap must
// still remove that part.
func TestLocalInterrupted(t *testing.T) {
	onLinux(t)
	t.Parallel()
	filler := make([]byte, 8<<20) // incompressible, so that the upload takes long enough to interrupt
	_, _ = rand.Read(filler)      // never fails (crypto/rand)
	o := laden(t, standIn+string(filler))
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	begun := make(chan bool, 1)
	go func() {
		defer interrupt()
		for ctx.Err() == nil {
			found, err := filepath.Glob("/[rt]*/calico-probe-" + o.Run + "/packed")
			if err != nil || len(found) > 0 {
				begun <- err == nil
				return
			}
			time.Sleep(time.Millisecond)
		}
		begun <- false
	}()
	s, err := Opener(MethodLocal, nil)(ctx, o)
	interrupt()
	if !<-begun || !errors.Is(err, context.Canceled) {
		t.Errorf("not interrupted during the upload: %v, %v", s, err)
	}
	eventuallyNoLeft(t, o)
}

// TestLocalWithoutShell has no sh in PATH, so the access method itself must report that it does not work.
func TestLocalWithoutShell(t *testing.T) {
	onLinux(t)
	t.Setenv("PATH", t.TempDir())
	_, err := Opener(MethodLocal, nil)(t.Context(), laden(t, standIn))
	pe, ok := errors.AsType[*PlacementError](err)
	if !ok || pe.Reason != facts.ReasonShell || !strings.Contains(pe.Text, "sh") {
		t.Errorf("%v, want a refusal because there is no shell", err)
	}
}

func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("no probe runs on this machine")
	}
}
