package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestLockLeft has a lock whose owner has exited and left it to its parent, like 'flock 9' in a script does.
// It does not run in parallel: a child that another test has just forked has the file open too, until it calls exec.
func TestLockLeft(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "ipam.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	take := exec.Command("flock", "3")
	take.ExtraFiles = []*os.File{f}
	must.Do(t, take.Run())
	h := &probe.Host{Root: "/", Proc: "/proc"}
	held, holder, err := LockHeld(h, f.Name())
	if err != nil || !held || holder != os.Getpid() {
		t.Errorf("held %v by %d, not by %d: %v", held, holder, os.Getpid(), err)
	}
}
