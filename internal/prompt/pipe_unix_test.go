//go:build !windows

package prompt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestPipeEndsWithTheSession requires a local command, such as a pager, and its children to end with the session.
func TestPipeEndsWithTheSession(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	s, _ := testShell(says("say", "hello"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- s.Script(ctx, "say a | sh -c 'echo $$ >"+file+".new; mv "+file+".new "+file+"; exec sleep 300'",
			func(Line, error) {})
	}()
	var pid int
	for pid == 0 && t.Context().Err() == nil {
		select {
		case err := <-ended:
			t.Fatal("it ended: ", err)
		default:
		}
		if b, err := os.ReadFile(file); err == nil {
			must.Get(fmt.Sscan(string(b), &pid))(t)
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for began := time.Now(); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the pager goes on")
		}
	}
}
