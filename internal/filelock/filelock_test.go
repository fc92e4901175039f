//go:build !windows

package filelock

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestClose wants a file free once it is closed here, also while a copy of it is open, as a
// child has it that is being started.
func TestClose(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	f, second := open(), open()
	if !Lock(f) || Lock(second) {
		t.Fatal("one file is taken by two, or by none")
	}
	inChild, err := unix.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inChild)
	if err := Close(f); err != nil {
		t.Fatal(err)
	}
	if !Lock(second) {
		t.Error("a file that was closed is still taken")
	}
}
