//go:build !windows

package filelock

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestClose requires that a closed file is unlocked, even while a forked child has a copy open.
func TestClose(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f := must.Get(os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600))(t)
		t.Cleanup(func() { f.Close() })
		return f
	}
	f, second := open(), open()
	if !Lock(f) || Lock(second) {
		t.Fatal("one file is taken by two, or by none")
	}
	inChild := must.Get(unix.Dup(int(f.Fd())))(t)
	defer unix.Close(inChild)
	must.Do(t, Close(f))
	if !Lock(second) {
		t.Error("a file that was closed is still taken")
	}
}
